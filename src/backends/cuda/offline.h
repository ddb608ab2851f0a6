// Kernels for cards of a kind, made without one.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/rank_context.h"
#include "runtime/backend.h"

namespace tutti::cuda {

// Its ranks make the kernels that a card of that kind may need with any set of libraries, and run
// nothing.
class OfflineBackend final : public Backend {
 public:
  // `target` is an architecture as nvcc names it: "sm_90". INVALID_ARGUMENT names those that there
  // are; NOT_FOUND: NVRTC is missing.
  static Result<std::unique_ptr<Backend>> create(const std::string& target);

  std::string name() const override { return "cuda"; }
  int device_count() const override { return 1; }
  std::string describe() const override;
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override;
  void offer(const Artifact& artifact) override { store_.offer(artifact); }
  std::vector<Artifact> artifacts() override { return store_.used(); }

 private:
  OfflineBackend() : compiler_(KernelCompiler::create(store_)) {}

  ArtifactStore store_;
  std::unique_ptr<KernelCompiler> compiler_;
  int arch_ = 0;
  std::size_t shared_bytes_ = 0;
};

}  // namespace tutti::cuda
