// How the values of a body lie in rows, and how threads share a row.
#pragma once

#include <map>
#include <set>

#include "backends/cuda/row_kernel.h"

namespace tutti::cuda {

struct RowLayout {
  Dims lead;  // dimensions in front of a row, the same for all values
  // Along this one of them only some coordinates are worked on: `chosen`, which the kernel finds at
  // one of its addresses. -1: all.
  int chosen_dim = -1;
  std::vector<std::int64_t> chosen;
  std::size_t chosen_address = 0;
  std::int64_t rows = 1;  // that are worked on
  std::int64_t in = 0;    // elements of a row of what is normalised; of the outputs without norm
  std::int64_t out = 0;   // of every output
  const Node* norm = nullptr;
  std::map<const Value*, Dims> dims;
  std::set<const Value*> late;  // values that depend on the norm

  int pack = 1;    // elements that are loaded and stored together
  int period = 1;  // packs of the last dimension of the outputs: code repeats after that many
  int team = 1;    // threads a row
  int rounds = 1;  // packs of a row that one thread has
  int threads = 256;

  // Without the lead.
  Dims row_of(const Dims& dims) const {
    return Dims(dims.begin() + static_cast<std::ptrdiff_t>(lead.size()), dims.end());
  }
  // Rows that are worked on, along a dimension of the lead.
  std::int64_t count(std::size_t d) const {
    return static_cast<int>(d) == chosen_dim ? std::ssize(chosen) : lead[d];
  }
  int packs() const { return static_cast<int>(out / pack); }
  bool fills_rounds() const { return rounds * team == packs(); }  // no thread is beyond the row
  bool is_late(const Value* value) const { return late.contains(value); }
};

// UNIMPLEMENTED where the body has no such layout.
Result<RowLayout> lay_out_rows(const RowSpec& spec);

}  // namespace tutti::cuda
