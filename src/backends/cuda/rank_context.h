// What a CUDA kernel may use of its rank. Outlives the rank's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/compiler.h"
#include "backends/cuda/memory.h"
#include "comm/communicator.h"

namespace tutti::cuda {

class Blas;
class Cudnn;
class CudnnHandle;
class Tuner;
class NcclComm;
class Recorder;

// How boxes of data get from rank to rank.
enum class ExchangeWay {
  kPush,  // the sender's kernel writes into the receiver's memory
  kPull,  // the receiver's kernel reads the sender's memory
  kNccl,  // packed, through NCCL
};

// Whether exchanges overlap with the attention between them.
enum class Pipelining { kWherePays, kAlways, kNever };

// Where kernels report indexes out of range: 4 words of device memory (kernels/prelude.cuh).
struct FaultWords {
  std::uint64_t count = 0;
  std::uint64_t kernel = 0;
  std::int64_t index = 0;
  std::int64_t size = 0;
};

// A rank's end of one exchange: what it has made ready, and what it has taken.
struct ExchangeEvents {
  std::unique_ptr<Event> ready;
  std::unique_ptr<Event> taken;
};

struct Lanes;

struct RankContext {
  RankContext();
  ~RankContext();

  int device = 0;
  int rank = 0;
  int arch = 90;  // compute capability, 10 * major + minor
  int multiprocessors = 132;
  std::size_t shared_bytes = 227 << 10;  // that a block may have
  // No device: kernels are compiled and never run. For tests without a GPU.
  bool is_dry = false;
  cudaStream_t stream = nullptr;
  KernelCompiler* compiler = nullptr;
  Blas* blas = nullptr;                       // null when dry
  Cudnn* cudnn = nullptr;                     // null when dry or missing
  Tuner* tuner = nullptr;                     // null when dry
  std::shared_ptr<CudnnHandle> cudnn_handle;  // see cudnn_handle()
  std::unique_ptr<DeviceMemory> faults;
  std::vector<std::string> fault_names;                      // by kernel number
  std::vector<std::shared_ptr<Communicator>> communicators;  // by mesh axis
  std::vector<std::string> axes;                             // names, by mesh axis
  ExchangeEvents events;
  ExchangeWay exchange_way = ExchangeWay::kPush;
  Pipelining pipelining = Pipelining::kWherePays;
  bool fuses_exchanges = true;       // kPush: rows are computed into the memory of their readers
  Recorder* recorder = nullptr;      // null when dry
  std::vector<int> reached_devices;  // whose memory this one can address
  // kNccl: by communicator along an axis, and the buffer of exchanges, as large as the latest
  // needs.
  std::map<const Communicator*, std::shared_ptr<NcclComm>> nccl;
  std::shared_ptr<DeviceMemory> packed;
  Staging* staging = nullptr;
  std::unique_ptr<Lanes> lanes;  // see lanes.h

  // A number under which a kernel reports faults in messages that begin with `name`.
  std::int64_t add_fault_source(std::string name) {
    fault_names.push_back(std::move(name));
    return static_cast<std::int64_t>(fault_names.size()) - 1;
  }
  void* fault_words() const { return faults == nullptr ? nullptr : faults->data(); }

  // Device memory with these bytes in it; null when dry.
  Result<std::shared_ptr<DeviceMemory>> place(const void* host, std::size_t bytes);
};

}  // namespace tutti::cuda
