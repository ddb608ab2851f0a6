#include "server/metrics/machine.h"

#include <fstream>
#include <limits>
#include <string>

namespace tutti::server {

MachineLoad::MachineLoad(std::chrono::milliseconds interval) : interval_(interval) { measure(); }

const MachineSample& MachineLoad::sample() {
  if (std::chrono::steady_clock::now() - measured_ >= interval_) measure();
  return sample_;
}

// proc(5): user, nice, system, idle, iowait, irq, softirq, steal, in ticks. Guests are in user.
MachineLoad::CpuTimes MachineLoad::read_cpu_times() {
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;
  CpuTimes times;
  std::uint64_t ticks = 0;
  for (int i = 0; i < 8 && file >> ticks; ++i) {
    const bool is_idle = i == 3 || i == 4;
    times.all += ticks;
    if (!is_idle) times.busy += ticks;
  }
  return times;
}

void MachineLoad::measure() {
  const CpuTimes now = read_cpu_times();
  if (now.all > times_.all) {
    sample_.cpu_utilization =
        static_cast<double>(now.busy - times_.busy) / static_cast<double>(now.all - times_.all);
  }
  times_ = now;
  std::uint64_t total = 0;
  std::uint64_t available = 0;
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemTotal:") total = kib * 1024;
    if (name == "MemAvailable:") available = kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  sample_.memory_total = total;
  sample_.memory_used = total - available;
  measured_ = std::chrono::steady_clock::now();
}

}  // namespace tutti::server
