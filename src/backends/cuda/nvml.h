// NVIDIA's management library: what cards are doing. It comes with the driver.
#pragma once

#include <memory>

#include "backends/cuda/dynamic_library.h"
#include "runtime/backend.h"

namespace tutti::cuda {

// Thread-safe.
class Nvml {
 public:
  // NOT_FOUND when it is missing, INTERNAL when it does not start.
  static Result<std::unique_ptr<Nvml>> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // `device` as CUDA counts them. What a card does not tell stays unknown.
  Result<DeviceLoad> load_of(int device) const;

 private:
  // Results are 0 for success; a device is a pointer to what we do not see. Names and units:
  // https://docs.nvidia.com/deploy/nvml-api
  using Device = void*;
  struct Memory {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
  };
  struct Utilization {
    unsigned gpu = 0;  // percent of the last sampling period
    unsigned memory = 0;
  };

  Nvml() = default;

  std::shared_ptr<DynamicLibrary> library_;
  int (*start_)() = nullptr;
  int (*stop_)() = nullptr;
  int (*find_)(const char*, Device*) = nullptr;
  int (*uuid_)(Device, char*, unsigned) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*power_)(Device, unsigned*) = nullptr;             // mW
  int (*power_limit_)(Device, unsigned*) = nullptr;       // mW
  int (*energy_)(Device, unsigned long long*) = nullptr;  // mJ
  bool has_started_ = false;
};

}  // namespace tutti::cuda
