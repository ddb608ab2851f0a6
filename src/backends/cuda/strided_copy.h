// Copies a box of elements from one strided place to another: what transposes, slices, joins and
// broadcasts come down to.
#pragma once

#include "backends/cuda/generated_kernel.h"
#include "runtime/strided_box.h"

namespace tutti::cuda {

// Addresses: source, target. An empty box makes a copy that does nothing.
class StridedCopy {
 public:
  static Result<StridedCopy> create(RankContext& context, const StridedBox& box);
  Status run(const void* source, void* target);

 private:
  std::vector<GeneratedKernel> kernel_;  // one or none
};

}  // namespace tutti::cuda
