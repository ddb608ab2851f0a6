// Convolutions on CUDA: what a node asks for, and the ways to compute it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/kernels.h"
#include "backends/cuda/tuner.h"

namespace tutti::cuda {

// One to three spatial dimensions.
struct ConvolutionProblem {
  DType dtype = DType::kFloat32;
  bool is_transposed = false;
  bool has_bias = false;
  Dims x, w, y;  // [n, c, ..]; w is [o, c / group, ..], transposed [c, o / group, ..]
  Dims strides, dilations, before, after;
  std::int64_t group = 1;
  bool has_constant_weights = false;
};

struct ConvolutionAddresses {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
};

// A way to compute a problem, on the rank's stream.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::string name() const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual Status run(const ConvolutionAddresses& at) = 0;
};

// Our own kernel, a thread an element: any type.
Result<std::unique_ptr<Convolution>> make_plain_convolution(const ConvolutionProblem& problem,
                                                            RankContext& context);

// The ways through cuDNN, in both orders of memory; only the one of that name if it is not empty.
// None where it is missing or refuses.
Result<std::vector<std::unique_ptr<Convolution>>> make_cudnn_convolutions(
    const ConvolutionProblem& problem, const std::string& name, RankContext& context);

}  // namespace tutti::cuda
