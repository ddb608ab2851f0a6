// The load of this machine's processors and memory, from /proc.
#pragma once

#include <chrono>
#include <cstdint>

namespace tutti::server {

struct MachineSample {
  double cpu_utilization = 0;      // 0 to 1, since the sample before
  std::uint64_t memory_total = 0;  // bytes
  std::uint64_t memory_used = 0;   // bytes that are not available to others
};

class MachineLoad {
 public:
  explicit MachineLoad(std::chrono::milliseconds interval);
  // The last sample while it is younger than the interval.
  const MachineSample& sample();

 private:
  struct CpuTimes {
    std::uint64_t busy = 0;
    std::uint64_t all = 0;
  };
  static CpuTimes read_cpu_times();
  void measure();

  const std::chrono::milliseconds interval_;
  std::chrono::steady_clock::time_point measured_;
  CpuTimes times_;
  MachineSample sample_;
};

}  // namespace tutti::server
