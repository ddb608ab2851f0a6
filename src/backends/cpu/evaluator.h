// Runs nodes over constants at compile time, with the kernels of the CPU backend.
#pragma once

#include "backends/cpu/kernel_registry.h"
#include "graph/builder.h"

namespace tutti::cpu {

class CpuEvaluator : public ConstantEvaluator {
 public:
  // A few bytes of a model can ask for a gigabyte again and again: by so many bytes, in all, may
  // results be larger than what they are made of.
  static constexpr std::int64_t kMostGrowth = std::int64_t{8} << 30;

  // `threads` counts the caller, as in ThreadPool.
  explicit CpuEvaluator(int threads = 1, std::int64_t most_growth = kMostGrowth)
      : pool_(threads), growth_left_(most_growth) {
    context_.pool = &pool_;
  }

  // Errors: an input that is no constant, a symbolic size, an operator without a kernel, and what
  // the kernel reports. RESOURCE_EXHAUSTED: results that have grown by more than that.
  Result<std::vector<Tensor>> evaluate(const Node& node) override;

 private:
  Status allow_growth(const std::vector<TensorDesc>& inputs,
                      const std::vector<TensorDesc>& outputs);

  ThreadPool pool_;
  std::int64_t growth_left_;
  CpuContext context_;
};

}  // namespace tutti::cpu
