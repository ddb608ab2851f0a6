#include "backends/cpu/backend.h"

#include <algorithm>
#include <thread>

#include "backends/cpu/device.h"

namespace tutti::cpu {

int CpuBackend::device_count() const {
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 8);
}

Result<std::unique_ptr<RankDevice>> CpuBackend::create_rank(const RankDeviceOptions& options) {
  if (options.device < 0 || options.device >= device_count()) {
    return invalid_argument("cpu: device ", options.device, " of rank ", options.rank,
                            " does not exist; there are ", device_count());
  }
  if (options.threads < 1) {
    return invalid_argument("cpu: rank ", options.rank, " is given ", options.threads,
                            " threads, expected 1 or more");
  }
  return std::unique_ptr<RankDevice>(std::make_unique<CpuRankDevice>(options, kernels_));
}

}  // namespace tutti::cpu
