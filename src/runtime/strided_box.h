// What nodes that only move elements come down to: boxes of elements that go from one strided place
// to another. The same for every backend. Errors name the attribute, shape or size that is wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backend.h"

namespace tutti {

// Element i of `dims` goes from source_offset + i * source_strides to target_offset + i *
// target_strides, all in elements.
struct StridedBox {
  Dims dims;
  Dims source_strides;  // may be 0 or negative
  Dims target_strides;  // places are distinct
  std::size_t element_size = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
};

Result<StridedBox> transpose_box(const KernelSpec& spec);
Result<StridedBox> expand_box(const KernelSpec& spec);
Result<StridedBox> slice_box(const KernelSpec& spec);
Result<StridedBox> tile_box(const KernelSpec& spec);
Result<std::vector<StridedBox>> concat_boxes(const KernelSpec& spec);  // one an operand
Result<std::vector<StridedBox>> split_boxes(const KernelSpec& spec);   // one a result

// Elements that Pad puts before and after each dimension; none is below 0.
struct Borders {
  Dims before;
  Dims after;
};
Result<Borders> bind_borders(const KernelSpec& spec);

}  // namespace tutti
