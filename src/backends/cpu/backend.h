// The CPU backend: ranks are groups of threads of this process.
#pragma once

#include <memory>

#include "backends/cpu/kernel_registry.h"
#include "runtime/backend.h"

namespace tutti::cpu {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const KernelRegistry& kernels) : kernels_(kernels) {}

  std::string name() const override { return "cpu"; }
  // A CPU "device" is no piece of hardware, only an id: any number of ranks may have the same one,
  // and each has its own threads. So that a plan for 8 ranks can be tried anywhere, there are never
  // fewer than 8; more where the machine has more hardware threads.
  int device_count() const override;
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override;

 private:
  const KernelRegistry& kernels_;
};

// With all kernels of this binary.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tutti::cpu
