// The CUDA backend: ranks are streams on NVIDIA GPUs of compute capability 8.0 or higher.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/nvml.h"

namespace tutti::cuda {

class CudaBackend final : public Backend {
 public:
  // UNAVAILABLE "no CUDA device: ..." when there is none or the driver is too old; NOT_FOUND when
  // cuBLASLt is missing. Without NVRTC, a kernel that no plan brings along is an error.
  // $TUTTI_CUDA_EXCHANGE says how ranks exchange data: push (the default), pull or nccl.
  static Result<std::unique_ptr<Backend>> create();

  std::string name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  std::string describe() const override;
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override;
  Status check_device_memory(int device, const void* data, std::size_t bytes) override;
  Status read_device_memory(void* host, int device, const void* source, std::size_t bytes) override;
  Result<std::shared_ptr<std::byte>> allocate_host(std::size_t bytes) override;
  // By cudaIpcMemHandle_t.
  Result<std::shared_ptr<std::byte>> open_device_memory(int device,
                                                        std::span<const std::byte> handle,
                                                        std::size_t bytes) override;
  Result<std::shared_ptr<std::byte>> allocate_device(int device, std::size_t bytes) override;
  Status write_device_memory(int device, void* target, const void* host,
                             std::size_t bytes) override;
  Result<DeviceLoad> device_load(int device) override;
  void offer(const Artifact& artifact) override { store_.offer(artifact); }
  std::vector<Artifact> artifacts() override { return store_.used(); }

  std::size_t num_compiled() const { return compiler_->num_compiled(); }  // kernels, by NVRTC

 private:
  struct Device {
    cudaDeviceProp properties{};
    std::unique_ptr<Blas> blas;
    std::unique_ptr<Cudnn> cudnn;  // null when it is missing
    std::unique_ptr<Tuner> tuner;
  };
  // Brings requests' tensors to a device or from it, for whoever asks outside of a rank.
  struct Carrier {
    ~Carrier();
    Status set_up();
    std::mutex mutex;
    cudaStream_t stream = nullptr;  // under mutex, as the rest
    std::unique_ptr<Staging> staging;
    std::unique_ptr<Event> done;
  };

  CudaBackend() = default;
  Status find_devices();
  Status check_device(int device) const;
  Status open_libraries();

  ArtifactStore store_;
  std::unique_ptr<KernelCompiler> compiler_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<Carrier>> readers_;  // by device
  std::vector<std::unique_ptr<Carrier>> writers_;  // by device
  std::unique_ptr<Nvml> nvml_;                     // null when it is missing
  Weights weights_;
  std::string cudnn_;  // its version, or why there is none
  SharedCaptures captures_;
  ExchangeWay exchange_way_ = ExchangeWay::kPush;
  Pipelining pipelining_ = Pipelining::kWherePays;
  bool fuses_exchanges_ = true;
};

}  // namespace tutti::cuda
