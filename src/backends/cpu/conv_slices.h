// How a convolution is cut along one spatial dimension into slices of output rows, each with the
// input rows that it needs and padding of its own.
#pragma once

#include <vector>

#include "backends/cpu/conv_shape.h"

namespace tutti::cpu {

struct ConvSlice {
  std::int64_t in_begin = 0, in_end = 0;
  std::int64_t out_begin = 0, out_end = 0;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;  // may be negative in transposed ones: output that no input reaches

  // Slices of one kind run the same primitive at other places.
  bool is_same_kind(const ConvSlice& other) const {
    return in_end - in_begin == other.in_end - other.in_begin &&
           out_end - out_begin == other.out_end - other.out_begin && pad_begin == other.pad_begin &&
           pad_end == other.pad_end;
  }
};

// The dimension to cut: the longest but the last, where there are several.
std::size_t slice_axis(const ConvShape& shape);

// Slices that keep the memory of one in cache and give each worker some. Empty when a slice would
// see padding alone.
std::vector<ConvSlice> cut_slices(const ConvShape& shape, std::size_t axis, int workers);

}  // namespace tutti::cpu
