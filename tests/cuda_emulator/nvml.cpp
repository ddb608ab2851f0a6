// A stand-in for libnvidia-ml.so.1: what the backend asks of it, with numbers that tell devices
// apart.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};

long number_of(void* device) { return reinterpret_cast<long>(device) - 1; }

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

// "0000:01:00.0" is device 0.
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  unsigned bus = 0;
  if (std::sscanf(id, "0000:%x:", &bus) != 1 || bus == 0) return 6;
  *device = reinterpret_cast<void*>(static_cast<long>(bus));
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012ld", number_of(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {4ULL << 30, 3ULL << 30, 1ULL << 30};
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* utilization) {
  *utilization = {50, 25};
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 300000;
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  *millijoules = 5000000;
  return 0;
}

}  // extern "C"
