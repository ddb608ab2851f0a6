#include "backends/cuda/nvml.h"

#include "backends/cuda/check.h"

namespace tutti::cuda {

Result<std::unique_ptr<Nvml>> Nvml::open() {
  std::unique_ptr<Nvml> nvml(new Nvml);
  TUTTI_ASSIGN_OR_RETURN(nvml->library_, DynamicLibrary::open("libnvidia-ml.so.1"));
  const DynamicLibrary& library = *nvml->library_;
  TUTTI_RETURN_IF_ERROR(library.find("nvmlInit_v2", &nvml->start_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlShutdown", &nvml->stop_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetHandleByPciBusId_v2", &nvml->find_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetUUID", &nvml->uuid_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetMemoryInfo", &nvml->memory_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetUtilizationRates", &nvml->utilization_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetPowerUsage", &nvml->power_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetEnforcedPowerLimit", &nvml->power_limit_));
  TUTTI_RETURN_IF_ERROR(library.find("nvmlDeviceGetTotalEnergyConsumption", &nvml->energy_));
  if (const int error = nvml->start_(); error != 0) {
    return internal_error("cuda: nvmlInit: error ", error);
  }
  nvml->has_started_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (has_started_) (void)stop_();
}

Result<DeviceLoad> Nvml::load_of(int device) const {
  // Not by index: CUDA_VISIBLE_DEVICES counts CUDA's devices anew, but not these.
  char bus[32] = {};
  TUTTI_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  Device handle = nullptr;
  if (const int error = find_(bus, &handle); error != 0) {
    return internal_error("cuda: nvmlDeviceGetHandleByPciBusId ", bus, ": error ", error);
  }
  char uuid[96] = {};
  if (const int error = uuid_(handle, uuid, sizeof uuid); error != 0) {
    return internal_error("cuda: nvmlDeviceGetUUID: error ", error);
  }
  DeviceLoad load;
  load.uuid = uuid;
  if (Memory memory; memory_(handle, &memory) == 0) {
    load.memory_total_bytes = static_cast<double>(memory.total);
    load.memory_used_bytes = static_cast<double>(memory.used);
  }
  if (Utilization utilization; utilization_(handle, &utilization) == 0) {
    load.utilization = utilization.gpu / 100.0;
  }
  if (unsigned power = 0; power_(handle, &power) == 0) load.power_watts = power / 1e3;
  if (unsigned limit = 0; power_limit_(handle, &limit) == 0) load.power_limit_watts = limit / 1e3;
  if (unsigned long long energy = 0; energy_(handle, &energy) == 0) {
    load.energy_joules = static_cast<double>(energy) / 1e3;
  }
  return load;
}

}  // namespace tutti::cuda
