// Where the results of a kernel over rows go: to several places, each row or part of a row to its
// own, such as the memory of the ranks that read them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dims.h"

namespace tutti::cuda {

// Where an output goes. Everything counts in elements.
struct RowRoute {
  // Of the output as it is cut, as many elements as it has, row-major.
  Dims dims;
  // Whoever gets an element depends on its coordinate along this dimension alone; -1: all get all.
  int dim = -1;
  struct Place {
    std::int64_t at = 0;     // along `dim`
    std::size_t target = 0;  // address
    std::int64_t offset = 0;
    Dims strides;  // there, by dimension; that along `dim` is in `offset`
  };
  std::vector<Place> places;  // several with the same `at`: copies
  std::size_t targets = 0;    // addresses
  // UNIMPLEMENTED where rows that have no place would be computed all the same.
  bool skips_rows = false;
};

}  // namespace tutti::cuda
