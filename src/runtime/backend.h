// What executes plans on a kind of device. The executor walks the plan; a backend gives it memory
// and kernels. `cpu` is in the binary; plug-ins reach the same interface through
// include/tutti/backend.h.
//
// Tensors are dense and row-major. Sizes may be 0: a kernel then does nothing and succeeds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "graph/graph.h"
#include "plan/artifacts.h"

namespace tutti {

// One node with everything that is known before it runs.
struct KernelSpec {
  const Node& node;
  std::span<const TensorDesc> inputs;  // an absent optional input has dtype kUndefined
  std::span<const TensorDesc> outputs;
  // For each input: its host data when it is a constant (weights), null otherwise. A kernel may
  // repack a constant when it is made; the data outlives the kernel.
  std::span<const Tensor* const> constants;
  // Bound sizes and rank coordinates, for attributes that hold Dims.
  const SymbolMap& symbols;
};

struct KernelArgs {
  std::span<const void* const> inputs;  // null for absent inputs
  std::span<void* const> outputs;
  // workspace_bytes() bytes, content undefined. At a multiple of 256 bytes from the start of memory
  // that the device allocated; that of the CPU starts at a multiple of 64.
  void* workspace = nullptr;
};

// One node, ready to run any number of times on one rank. run() allocates nothing.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  // True when the kernel repacked constant input `i` and never reads the original again.
  virtual bool consumes_constant(std::size_t /*i*/) const { return false; }
  virtual Status run(const KernelArgs& args) = 0;
};

// A stretch of kernels, noted once and repeated without their host side.
class Recording {
 public:
  virtual ~Recording() = default;
  // In order with everything else that the device is asked for; does not wait.
  virtual Status replay() = 0;
};

// Rows that lie `source_stride` and `target_stride` bytes apart.
struct RowCopy {
  void* target = nullptr;
  std::size_t target_stride = 0;
  const void* source = nullptr;
  std::size_t source_stride = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};

// Device memory with an owner.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual void* data() = 0;
  virtual std::size_t size() const = 0;
};

// One rank's device: memory, kernels and the order in which they run. Used by one thread at a time.
class RankDevice {
 public:
  virtual ~RankDevice() = default;
  virtual Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) = 0;
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) = 0;
  // True when data() of buffers is ordinary memory of this process: kernels then read requests and
  // write responses in place, without upload and download.
  virtual bool is_host_memory() const { return false; }
  // Where a constant lives on this device. A host backend returns the tensor's own memory.
  virtual Result<const void*> place_constant(const Tensor& tensor) = 0;
  virtual Status upload(void* target, const void* host, std::size_t bytes) = 0;
  virtual Status download(void* host, const void* source, std::size_t bytes) = 0;
  // A request's own tensors: the source of the first and the target of the second are memory of the
  // host, or of a device where check_device_memory() took it. Both belong to the device until
  // finish() returns; then the target is filled. The defaults are upload() and download().
  virtual Status read_input(const RowCopy& rows);
  virtual Status write_output(void* target, const void* source, std::size_t bytes);
  // From one place of the device to another; the default goes by way of the host.
  virtual Status copy(void* target, const void* source, std::size_t bytes);
  // Waits until all that was asked for is done. Errors: what has failed on the device since the
  // last call, INVALID_ARGUMENT for what a kernel found wrong with the request's content.
  virtual Status finish() = 0;

  // Where true, run() of kernels between the next two calls notes what they would do instead of
  // doing it. Kernels have run once before.
  virtual bool can_record() const { return false; }
  // Where true, exchanges are recorded too: begin_recording(), end_recording() and replay() are
  // then collective over RankDeviceOptions::group, and one recording holds what all ranks did.
  virtual bool records_exchanges() const { return false; }
  virtual Status begin_recording();
  virtual Result<std::unique_ptr<Recording>> end_recording();
  // Instead of end_recording(), after an error. Not collective.
  virtual void drop_recording() {}

  // Where true, mark(i) notes the device's own time when it gets there, and after finish(),
  // seconds_between gives what lies between two marks. Elsewhere kernels have run when they return.
  virtual bool has_clock() const { return false; }
  virtual Status mark(std::size_t i);
  virtual Result<double> seconds_between(std::size_t from, std::size_t to);
};

struct RankDeviceOptions {
  int device = 0;   // index on this machine
  int rank = 0;     // in the mesh
  int threads = 1;  // host threads that a CPU rank may use
  // By mesh axis: this rank's communicator along the axis. Null entries for axes of size 1.
  std::vector<std::shared_ptr<Communicator>> communicators;
  std::vector<std::string> axes;        // names, by mesh axis
  std::shared_ptr<Communicator> group;  // of all ranks of the mesh; null for one
};

// What a device is doing, whoever uses it. Numbers below 0 are not known.
struct DeviceLoad {
  std::string uuid;  // "GPU-..."
  double memory_total_bytes = -1;
  double memory_used_bytes = -1;
  double utilization = -1;  // 0 to 1
  double power_watts = -1;
  double power_limit_watts = -1;
  double energy_joules = -1;  // since the driver was loaded
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda"
  virtual int device_count() const = 0;
  // A line for people: devices and versions.
  virtual std::string describe() const { return name(); }
  virtual Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) = 0;

  // What follows may be called from any thread.
  // Whether a request's tensor may lie at `data` in the memory of `device`: INVALID_ARGUMENT says
  // why not. Its content is ready before the request, and nobody else writes it until the answer.
  virtual Status check_device_memory(int device, const void* data, std::size_t bytes);
  // Copies such memory to the host, and waits for it.
  virtual Status read_device_memory(void* host, int device, const void* source, std::size_t bytes);
  // Host memory that the devices reach fastest, 64-byte aligned; null where any host memory does.
  virtual Result<std::shared_ptr<std::byte>> allocate_host(std::size_t bytes);

  // The first `bytes` of memory of a device that another process shares by `handle` (for CUDA the
  // bytes of cudaIpcMemHandle_t). UNIMPLEMENTED where there is no such thing; INVALID_ARGUMENT: no
  // such device, a handle that is none, fewer bytes behind it.
  virtual Result<std::shared_ptr<std::byte>> open_device_memory(int device,
                                                                std::span<const std::byte> handle,
                                                                std::size_t bytes);
  // Memory of a device for a request's tensors, 256-byte aligned, which may outlive the backend;
  // null where they do not gain by lying there. RESOURCE_EXHAUSTED when there is no room.
  virtual Result<std::shared_ptr<std::byte>> allocate_device(int device, std::size_t bytes);
  // Copies to such memory and waits for it. Like read_device_memory() it does not wait for ranks,
  // nor they for it.
  virtual Status write_device_memory(int device, void* target, const void* host, std::size_t bytes);
  virtual Result<DeviceLoad> device_load(int device);

  // From now on, ranks use it instead of making or measuring the same. What is for another machine
  // or backend does no harm.
  virtual void offer(const Artifact& /*artifact*/) {}
  // All that ranks have used so far, wherever it came from.
  virtual std::vector<Artifact> artifacts() { return {}; }
};

}  // namespace tutti
