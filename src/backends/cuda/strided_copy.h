// Copies a box of elements from one strided place to another: what transposes, slices, joins and
// broadcasts come down to.
#pragma once

#include "backends/cuda/generated_kernel.h"

namespace tutti::cuda {

struct StridedBox {
  Dims dims;
  Dims source_strides;  // elements; may be 0 or negative
  Dims target_strides;  // places are distinct
  std::size_t element_size = 0;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
};

// Addresses: source, target. An empty box makes a copy that does nothing.
class StridedCopy {
 public:
  static Result<StridedCopy> create(RankContext& context, const StridedBox& box);
  Status run(const void* source, void* target);

 private:
  std::vector<GeneratedKernel> kernel_;  // one or none
};

}  // namespace tutti::cuda
