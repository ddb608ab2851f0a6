// One CPU rank: a thread pool and the process's own memory.
#pragma once

#include "backends/cpu/kernel_registry.h"
#include "runtime/backend.h"

namespace tutti::cpu {

// Kernels hold a pointer to this device's context, so the device outlives them.
class CpuRankDevice final : public RankDevice {
 public:
  CpuRankDevice(const RankDeviceOptions& options, const KernelRegistry& kernels);

  // Errors name the node, the operator and the backend.
  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override;
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override;
  bool is_host_memory() const override { return true; }
  Result<const void*> place_constant(const Tensor& tensor) override;
  Status upload(void* target, const void* host, std::size_t bytes) override;
  Status download(void* host, const void* source, std::size_t bytes) override;
  Status finish() override { return {}; }  // kernels have run when they return

 private:
  const KernelRegistry& kernels_;
  ThreadPool pool_;
  CpuContext context_;
};

}  // namespace tutti::cpu
