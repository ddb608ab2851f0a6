// The CUDA backend: ranks are streams on NVIDIA GPUs of compute capability 8.0 or higher.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/device.h"

namespace tutti::cuda {

class CudaBackend final : public Backend {
 public:
  // UNAVAILABLE "no CUDA device: ..." when there is none or the driver is too old; NOT_FOUND for a
  // CUDA library that is missing.
  static Result<std::unique_ptr<Backend>> create();

  std::string name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  std::string describe() const override;
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override;

 private:
  struct Device {
    cudaDeviceProp properties{};
    std::unique_ptr<Blas> blas;
    std::unique_ptr<Cudnn> cudnn;  // null when it is missing
    std::unique_ptr<Tuner> tuner;
  };

  CudaBackend() = default;
  Status find_devices();
  Status open_libraries();

  std::unique_ptr<KernelCompiler> compiler_;
  std::vector<Device> devices_;
  Weights weights_;
  std::string cudnn_;  // its version, or why there is none
};

}  // namespace tutti::cuda
