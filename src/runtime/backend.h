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
  void* workspace = nullptr;  // workspace_bytes() bytes, 64-byte aligned, content undefined
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
  // Waits until all that was asked for is done.
  virtual Status finish() = 0;
};

struct RankDeviceOptions {
  int device = 0;   // index on this machine
  int rank = 0;     // in the mesh
  int threads = 1;  // host threads that a CPU rank may use
  // By mesh axis: this rank's communicator along the axis. Null entries for axes of size 1.
  std::vector<std::shared_ptr<Communicator>> communicators;
  std::vector<std::string> axes;  // names, by mesh axis
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda"
  virtual int device_count() const = 0;
  virtual Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) = 0;
};

}  // namespace tutti
