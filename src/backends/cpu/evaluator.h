// Runs nodes over constants at compile time, with the kernels of the CPU backend.
#pragma once

#include "backends/cpu/kernel_registry.h"
#include "graph/builder.h"

namespace tutti::cpu {

class CpuEvaluator : public ConstantEvaluator {
 public:
  // `threads` counts the caller, as in ThreadPool.
  explicit CpuEvaluator(int threads = 1) : pool_(threads) { context_.pool = &pool_; }

  // Errors: an input that is no constant, a symbolic size, an operator without a kernel, and what
  // the kernel reports.
  Result<std::vector<Tensor>> evaluate(const Node& node) override;

 private:
  ThreadPool pool_;
  CpuContext context_;
};

}  // namespace tutti::cpu
