// One CUDA rank: a stream on a device. Several ranks may have the same device.
#pragma once

#include "backends/cuda/blas.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/recording.h"
#include "backends/cuda/tuner.h"
#include "backends/cuda/weights.h"

namespace tutti::cuda {

// What the ranks of a backend share; outlives them.
struct DeviceServices {
  KernelCompiler* compiler = nullptr;
  Blas* blas = nullptr;    // of the rank's device
  Cudnn* cudnn = nullptr;  // likewise; null when it is missing
  Tuner* tuner = nullptr;  // likewise
  Weights* weights = nullptr;
  SharedCaptures* captures = nullptr;
  ExchangeWay exchange_way = ExchangeWay::kPush;
  Pipelining pipelining = Pipelining::kWherePays;
  bool fuses_exchanges = true;
  cudaDeviceProp properties{};
};

class CudaRankDevice final : public RankDevice {
 public:
  static Result<std::unique_ptr<RankDevice>> create(const RankDeviceOptions& options,
                                                    const DeviceServices& services);
  // Waits for what is under way. No call of any rank is, so no one reads this one's memory.
  ~CudaRankDevice() override;

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override;
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override;
  Result<const void*> place_constant(const Tensor& tensor) override;
  Status upload(void* target, const void* host, std::size_t bytes) override;
  Status download(void* host, const void* source, std::size_t bytes) override;
  Status copy(void* target, const void* source, std::size_t bytes) override;
  Status read_input(const RowCopy& rows) override;
  Status write_output(void* target, const void* source, std::size_t bytes) override;
  Status finish() override;

  bool can_record() const override { return true; }
  bool records_exchanges() const override { return true; }
  Status begin_recording() override;
  Result<std::unique_ptr<Recording>> end_recording() override;
  void drop_recording() override;

  bool has_clock() const override { return true; }
  Status mark(std::size_t i) override;
  Result<double> seconds_between(std::size_t from, std::size_t to) override;

 private:
  CudaRankDevice() = default;
  Status set_up(const RankDeviceOptions& options, const DeviceServices& services);
  Status check_faults();

  RankContext context_;
  std::shared_ptr<Communicator> group_;
  Recorder recorder_;
  Weights* weights_ = nullptr;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Event> done_;
  FaultWords* seen_faults_ = nullptr;  // pinned
  std::vector<std::shared_ptr<DeviceMemory>> constants_;
  std::vector<std::unique_ptr<Event>> marks_;
};

}  // namespace tutti::cuda
