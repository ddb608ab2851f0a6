// One inference, free of any protocol: what front ends hand in and get back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/dims.h"
#include "base/dtype.h"
#include "base/status.h"
#include "runtime/memory_place.h"

namespace tutti::server {

class ModelTrace;  // trace/trace.h

using TimePoint = std::chrono::steady_clock::time_point;

// A tensor as a model declares it. A size of -1 takes any size.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kUndefined;
  Dims dims;
  bool operator==(const TensorSpec&) const = default;
};

struct ModelSignature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

using ParameterValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

// Bytes of a region that a client has registered.
struct SharedMemoryRef {
  std::string region;
  std::uint64_t offset = 0;
  std::uint64_t byte_size = 0;
  bool operator==(const SharedMemoryRef&) const = default;
};

// Row-major elements. Elements of kString are each a 4-byte little-endian length and that many
// bytes.
struct InferInput {
  std::string name;
  DType dtype = DType::kUndefined;
  Dims shape;
  std::span<const std::byte> data;
  // Where the data lie instead; the service sets `data` from it, and `place`.
  std::optional<SharedMemoryRef> shared_memory = std::nullopt;
  MemoryPlace place = {};  // on a device, `data` is not for the host to read
};

// What a client wants of one output besides the output itself.
struct OutputOptions {
  std::optional<SharedMemoryRef> shared_memory = std::nullopt;  // written there, not answered
  std::uint32_t class_count = 0;  // above 0: the largest elements as BYTES "value:index"
};

// One rank in one run of a model. One that has not come back has not finished.
struct RankTimes {
  TimePoint started;
  TimePoint finished;
  std::chrono::nanoseconds exchange{0};  // of it in exchanges, as far as the device can tell
};

struct InferRequest {
  std::string model_name;
  std::string model_version;  // "" asks for the newest one that is ready
  std::string id;             // comes back in the response
  std::map<std::string, ParameterValue> parameters;
  std::vector<InferInput> inputs;
  std::vector<std::string> outputs;           // names; empty asks for all
  std::vector<OutputOptions> output_options;  // as many as `outputs`, or none
  // Keeps what the inputs' data points into alive. A model may hold on to it after the answer.
  std::shared_ptr<const void> owner;
  // The request's own parameters. Of a model with queue policies they are the policies' business
  // (scheduler/scheduling_options.h); of any other the timeout sets the deadline.
  std::uint64_t priority = 0;  // 0: the model's default
  std::optional<std::chrono::microseconds> timeout;
  // Past this time a request without an answer fails with DEADLINE_EXCEEDED.
  std::optional<TimePoint> deadline;
  std::stop_token cancel;  // requested when nobody waits for the answer any more
  // Inputs or outputs lie on a device: the host neither joins them with others' nor keeps them.
  bool has_device_tensors = false;
  std::shared_ptr<ModelTrace> trace = nullptr;   // null: it is not traced
  std::vector<RankTimes>* rank_times = nullptr;  // optional: for the model to fill, well or not
};

struct OutputDesc {
  std::string name;
  DType dtype = DType::kUndefined;
  Dims shape;
  // Where the service has put the bytes; else they are in the sink.
  std::optional<SharedMemoryRef> shared_memory = std::nullopt;
  // For OutputSink::complete(): the names of its classes, where the model has some.
  const std::vector<std::string>* labels = nullptr;
};

// Where outputs are written: the front end's response buffers, so that nothing is copied twice.
// Held by whoever may still write.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // `bytes` bytes for the output at `position` in the request's list of outputs; valid as long as
  // the sink. Called once for each output, by one thread.
  virtual Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                                      std::size_t bytes) = 0;
  // Where that memory lies; elsewhere than on the host only for requests with has_device_tensors.
  virtual MemoryPlace place(std::size_t /*position*/) const { return {}; }
  // Once, when all outputs are written and before the request counts as answered: may still change
  // how they are described, or fail it. `is_batched`: their first dimension counts a batch.
  virtual Status complete(bool /*is_batched*/, std::vector<OutputDesc>* /*outputs*/) {
    return Status();
  }
};

struct InferResponse {
  std::string model_name;
  std::string model_version;
  std::string id;
  std::vector<OutputDesc> outputs;  // in the order asked for; their bytes are in the sink
  std::map<std::string, ParameterValue> parameters = {};
};

// Called exactly once for a request, on any thread; must not block for long.
using InferDone = std::function<void(Result<InferResponse>)>;

}  // namespace tutti::server
