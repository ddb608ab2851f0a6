// Apart from backend.cpp, so that tests can link a backend with kernels of their own.
#include "backends/cpu/backend.h"

namespace tutti::cpu {

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>(kernel_registry());
}

}  // namespace tutti::cpu
