#include "compiler/device_profile.h"

#include <algorithm>
#include <iterator>

namespace tutti {
namespace {

constexpr DeviceProfile kProfiles[] = {
    // NVIDIA's data sheet of the H200 SXM: 989 TFLOPS in bf16 without sparsity, 4.8 TB/s of memory,
    // NVLink with 900 GB/s in both directions together. Half of the first, 80% of the others: what
    // long kernels and large messages reach. 10 us is the order of one NCCL collective of a few
    // bytes on one host.
    {"h200", CostRates{}},
    // A rank is a thread of one machine. The sample transformer's 47.6 GFLOP take 325 ms on two
    // cores
    // with AVX-512 (docs/measurements.md). Exchanges are copies between threads and two meetings of
    // them; the rates of those and of memory are the order of a server's.
    {"cpu", CostRates{.flops_per_second = 7e10,
                      .bytes_per_second = 4e9,
                      .memory_bytes_per_second = 8e9,
                      .seconds_per_exchange = 3e-5}},
};

}  // namespace

Result<DeviceProfile> device_profile(std::string_view name) {
  const auto it = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                               [&](const DeviceProfile& profile) { return profile.name == name; });
  if (it != std::end(kProfiles)) return *it;
  std::vector<std::string> names;
  for (const DeviceProfile& profile : kProfiles) names.emplace_back(profile.name);
  return invalid_argument("device profile '", name, "' is unknown; expected one of ", names);
}

}  // namespace tutti
