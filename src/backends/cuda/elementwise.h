// Generated kernels in which every element of the output depends on one (broadcast) element of each
// input: pointwise regions, and what products do after themselves.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/generated_kernel.h"

namespace tutti::cuda {

// Operand i is x<i> in the body, of its compute type; the body sets y<j>, declared before it, of
// the compute type of output j. Outputs are dense over `dims`; inputs broadcast to them.
struct ElementwiseSpec {
  Dims dims;
  std::vector<TensorDesc> inputs;
  std::vector<DType> outputs;
  std::string body;
  std::string entry = "pointwise";
};

// Addresses: inputs, then outputs. An output may lie where a dense input of its type lies.
Result<GeneratedKernel> make_elementwise(RankContext& context, const ElementwiseSpec& spec);

}  // namespace tutti::cuda
