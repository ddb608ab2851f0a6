#include "server/metrics/gpus.h"

#include <utility>

namespace tutti::server {

GpuLoad::GpuLoad(Backend* gpu, std::chrono::milliseconds interval)
    : gpu_(gpu), interval_(interval) {
  measure();
}

const std::vector<DeviceLoad>& GpuLoad::sample() {
  if (std::chrono::steady_clock::now() - measured_ >= interval_) measure();
  return sample_;
}

void GpuLoad::measure() {
  measured_ = std::chrono::steady_clock::now();
  if (gpu_ == nullptr) return;
  sample_.clear();
  for (int device = 0; device < gpu_->device_count(); ++device) {
    Result<DeviceLoad> load = gpu_->device_load(device);
    if (!load.ok()) continue;
    if (load->energy_joules >= 0) {
      const double first = first_energy_.try_emplace(load->uuid, load->energy_joules).first->second;
      load->energy_joules -= first;
    }
    sample_.push_back(*std::move(load));
  }
}

}  // namespace tutti::server
