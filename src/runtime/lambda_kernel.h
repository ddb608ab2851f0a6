// A kernel whose state is what a lambda captured.
#pragma once

#include <memory>
#include <utility>

#include "runtime/backend.h"

namespace tutti {

template <class F>
class LambdaKernel final : public Kernel {
 public:
  LambdaKernel(F function, std::size_t workspace)
      : function_(std::move(function)), workspace_(workspace) {}
  std::size_t workspace_bytes() const override { return workspace_; }
  Status run(const KernelArgs& args) override { return function_(args); }

 private:
  F function_;
  std::size_t workspace_;
};

// `function` is called as Status(const KernelArgs&) at each run.
template <class F>
std::unique_ptr<Kernel> make_lambda_kernel(F function, std::size_t workspace = 0) {
  return std::make_unique<LambdaKernel<F>>(std::move(function), workspace);
}

}  // namespace tutti
