// The CUDA backend: ranks are streams on NVIDIA GPUs of compute capability 8.0 or higher.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/device.h"

namespace tutti::cuda {

class CudaBackend final : public Backend {
 public:
  // UNAVAILABLE "no CUDA device: ..." when there is none or the driver is too old; NOT_FOUND for a
  // CUDA library that is missing. $TUTTI_CUDA_EXCHANGE says how ranks exchange data: push (the
  // default), pull or nccl.
  static Result<std::unique_ptr<Backend>> create();

  std::string name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  std::string describe() const override;
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override;
  Status check_device_memory(int device, const void* data, std::size_t bytes) override;
  Status read_device_memory(void* host, int device, const void* source, std::size_t bytes) override;
  Result<std::shared_ptr<std::byte>> allocate_host(std::size_t bytes) override;

 private:
  struct Device {
    cudaDeviceProp properties{};
    std::unique_ptr<Blas> blas;
    std::unique_ptr<Cudnn> cudnn;  // null when it is missing
    std::unique_ptr<Tuner> tuner;
  };
  // Fetches what requests leave on a device, for whoever asks outside of a rank.
  struct Reader {
    ~Reader();
    std::mutex mutex;
    cudaStream_t stream = nullptr;  // under mutex, as the rest
    std::unique_ptr<Staging> staging;
  };

  CudaBackend() = default;
  Status find_devices();
  Status open_libraries();

  std::unique_ptr<KernelCompiler> compiler_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<Reader>> readers_;  // by device
  Weights weights_;
  std::string cudnn_;  // its version, or why there is none
  SharedCaptures captures_;
  ExchangeWay exchange_way_ = ExchangeWay::kPush;
  Pipelining pipelining_ = Pipelining::kWherePays;
};

}  // namespace tutti::cuda
