#include "server/trace/trace.h"

#include <atomic>
#include <utility>

#include "server/datatype.h"
#include "server/json/tensor.h"

namespace tutti::server {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

std::uint64_t next_trace_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

RequestTrace::~RequestTrace() {
  record_.ended = now();
  deliver_(std::move(record_));
}

void RequestTrace::note(const char* event, TimePoint time) {
  const std::lock_guard lock(mutex_);
  record_.events.push_back({event, time});
}

void RequestTrace::answered(const Status& status) {
  const std::lock_guard lock(mutex_);
  record_.status = status;
}

std::shared_ptr<ModelTrace> RequestTrace::start_model() {
  return std::make_shared<ModelTrace>(shared_from_this(), record_.id, 0);
}

void RequestTrace::add(ModelTraceRecord record) {
  const std::lock_guard lock(mutex_);
  record_.models.push_back(std::move(record));
}

ModelTrace::ModelTrace(std::shared_ptr<RequestTrace> request, std::uint64_t id,
                       std::uint64_t parent_id)
    : request_(std::move(request)) {
  record_.id = id;
  record_.parent_id = parent_id;
}

// One that no model took says nothing.
ModelTrace::~ModelTrace() {
  if (!record_.model_name.empty()) request_->add(std::move(record_));
}

std::shared_ptr<ModelTrace> ModelTrace::child() const {
  return std::make_shared<ModelTrace>(request_, next_trace_id(), record_.id);
}

void ModelTrace::add_tensor(const char* activity, const std::string& name, DType dtype,
                            const Dims& shape, std::span<const std::byte> data) {
  TracedTensor tensor{activity, name, std::string(protocol_type_name(dtype)), shape, ""};
  // BYTES that are no text stay out; the shape tells how many there were.
  if (!append_elements_json(data, dtype, &tensor.data).ok()) tensor.data.clear();
  record_.tensors.push_back(std::move(tensor));
}

TracedSending::TracedSending(std::shared_ptr<RequestTrace> trace, const char* begin,
                             const char* end)
    : trace_(std::move(trace)), end_(end) {
  if (trace_) trace_->note(begin, now());
}

TracedSending::~TracedSending() {
  if (trace_) trace_->note(end_, now());
}

}  // namespace tutti::server
