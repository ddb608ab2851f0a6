// Kernels that the stand-in for NVRTC has compiled: loaded, checked and launched.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grid.h"
#include "machine.h"

namespace tutti::cuda_emulator {

struct LoadedKernel {
  std::string name;
  std::string code;  // path of the shared object
  KernelFacts facts{};
  void (*run)(const void* parameters) = nullptr;
  std::map<int, std::size_t> most_shared;  // dynamic bytes allowed, by device
};

// Null: `code` is nothing that nvrtc.cpp has made.
std::unique_ptr<LoadedKernel> load_kernel(const char* code, const char* name, Machine& machine);

// What a card would refuse at the launch.
cudaError_t check_launch(const LoadedKernel& kernel, const GridShape& shape, int device);

// As a step of a stream of `device`. Parameters are copied. Running it finds addresses that are not
// in any memory that the device reaches, writes around allocations, and what GridRunner finds.
Step launch_step(const LoadedKernel& kernel, const GridShape& shape, int device,
                 const void* parameters);

// Which devices' memory a device reaches besides its own (cudaDeviceEnablePeerAccess).
class Peers {
 public:
  static Peers& get();
  // False: it already does.
  bool enable(int device, int peer);
  bool reaches(int device, int peer) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<int, int>> pairs_;  // under mutex_
};

}  // namespace tutti::cuda_emulator
