// The load of the server's GPUs, as their driver tells.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace tutti::server {

class GpuLoad {
 public:
  // `gpu` outlives this; null: there are none.
  GpuLoad(Backend* gpu, std::chrono::milliseconds interval);
  // By device, without those that tell nothing; energy counts from the start of this. The last
  // sample while it is younger than the interval.
  const std::vector<DeviceLoad>& sample();

 private:
  void measure();

  Backend* const gpu_;
  const std::chrono::milliseconds interval_;
  std::chrono::steady_clock::time_point measured_;
  std::vector<DeviceLoad> sample_;
  std::map<std::string, double> first_energy_;  // by uuid
};

}  // namespace tutti::server
