#include "server/trace/otlp.h"

#include <chrono>
#include <map>
#include <string>

namespace tutti::server {
namespace {

namespace proto = opentelemetry::proto;
using proto::trace::v1::ScopeSpans;
using proto::trace::v1::Span;

template <class Id>
std::string bytes_of(const Id& id) {
  return std::string(reinterpret_cast<const char*>(id.data()), id.size());
}

void set_attribute(Span* span, const char* name, const std::string& value) {
  auto* attribute = span->add_attributes();
  attribute->set_key(name);
  attribute->mutable_value()->set_string_value(value);
}

void set_attribute(Span* span, const char* name, std::int64_t value) {
  auto* attribute = span->add_attributes();
  attribute->set_key(name);
  attribute->mutable_value()->set_int_value(value);
}

void set_status(Span* span, const Status& status) {
  if (status.ok()) return;
  span->mutable_status()->set_code(proto::trace::v1::Status::STATUS_CODE_ERROR);
  span->mutable_status()->set_message(status.message());
}

// Writes the spans of one trace.
class SpanWriter {
 public:
  SpanWriter(const TraceRecord& record, ScopeSpans* spans)
      : spans_(spans),
        trace_id_(bytes_of(record.parent ? record.parent->trace_id : make_trace_id())),
        state_(record.parent ? record.parent->state : ""),
        to_system_(std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()) -
                   std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch())) {}

  // Null where one of the times is missing.
  Span* add(const std::string& name, const std::string& parent, TimePoint begin, TimePoint end) {
    if (begin == TimePoint() || end == TimePoint()) return nullptr;
    Span* span = spans_->add_spans();
    span->set_trace_id(trace_id_);
    span->set_span_id(bytes_of(make_span_id()));
    span->set_parent_span_id(parent);
    span->set_trace_state(state_);
    span->set_name(name);
    span->set_kind(Span::SPAN_KIND_INTERNAL);
    span->set_start_time_unix_nano(system_ns(begin));
    span->set_end_time_unix_nano(system_ns(end));
    return span;
  }

  std::uint64_t system_ns(TimePoint time) const {
    const auto since_epoch = std::chrono::nanoseconds(time.time_since_epoch()) + to_system_;
    return static_cast<std::uint64_t>(since_epoch.count());
  }

 private:
  ScopeSpans* const spans_;
  const std::string trace_id_;
  const std::string state_;
  const std::chrono::nanoseconds to_system_;
};

void add_compute(const ModelTraceRecord& model, const std::string& parent, SpanWriter* writer) {
  const RequestTimes& times = model.times;
  const Span* compute = writer->add("compute", parent, times.started, times.finished);
  if (compute == nullptr) return;
  const std::string compute_id = compute->span_id();
  writer->add("compute_input", compute_id, times.started, times.inputs_ready);
  // A run that failed has no outputs: it ends with the request.
  const bool has_outputs = times.outputs_started != TimePoint();
  const bool has_begun = times.inputs_ready != TimePoint();
  const Span* infer =
      writer->add("compute_infer", compute_id, has_begun ? times.inputs_ready : times.started,
                  has_outputs ? times.outputs_started : times.finished);
  const std::string infer_id = infer->span_id();
  for (std::size_t rank = 0; rank < model.ranks.size(); ++rank) {
    const RankTimes& run = model.ranks[rank];
    Span* span = writer->add("rank " + std::to_string(rank), infer_id, run.started, run.finished);
    if (span == nullptr) continue;
    set_attribute(span, "tutti.rank", static_cast<std::int64_t>(rank));
    if (run.exchange.count() > 0) set_attribute(span, "tutti.exchange_ns", run.exchange.count());
  }
  writer->add("compute_output", compute_id, times.outputs_started, times.finished);
}

// The span's id.
std::string add_model(const ModelTraceRecord& model, const std::string& parent,
                      SpanWriter* writer) {
  Span* span = writer->add(model.model_name, parent, model.times.arrived, model.ended);
  if (span == nullptr) return parent;
  set_attribute(span, "triton.model_name", model.model_name);
  set_attribute(span, "triton.model_version", model.model_version);
  set_attribute(span, "triton.trace_id", static_cast<std::int64_t>(model.id));
  set_attribute(span, "triton.trace_parent_id", static_cast<std::int64_t>(model.parent_id));
  if (!model.request_id.empty()) set_attribute(span, "triton.request_id", model.request_id);
  if (model.is_cached) set_attribute(span, "tutti.cache_hit", std::int64_t{1});
  set_status(span, model.status);
  const std::string id = span->span_id();
  const RequestTimes& times = model.times;
  const bool has_run = times.started != TimePoint();
  writer->add("queue", id, times.queued, has_run ? times.started : times.finished);
  add_compute(model, id, writer);
  return id;
}

}  // namespace

void add_spans(const TraceRecord& record, ScopeSpans* spans) {
  SpanWriter writer(record, spans);
  Span* root = writer.add("InferRequest", record.parent ? bytes_of(record.parent->span_id) : "",
                          record.started, record.ended);
  root->set_kind(Span::SPAN_KIND_SERVER);
  set_attribute(root, "network.protocol.name", record.protocol);
  set_attribute(root, "triton.model_name", record.model_name);
  set_status(root, record.status);
  for (const TraceEvent& event : record.events) {
    auto* added = root->add_events();
    added->set_name(event.name);
    added->set_time_unix_nano(writer.system_ns(event.time));
  }
  const std::string root_id = root->span_id();
  // Ids grow from an ensemble to its steps.
  std::map<std::uint64_t, const ModelTraceRecord*> models;
  for (const ModelTraceRecord& model : record.models) models[model.id] = &model;
  std::map<std::uint64_t, std::string> span_ids;
  for (const auto& [id, model] : models) {
    const auto parent = span_ids.find(model->parent_id);
    span_ids[id] = add_model(*model, parent == span_ids.end() ? root_id : parent->second, &writer);
  }
}

std::size_t span_count(const TraceRecord& record) {
  std::size_t count = 1;
  for (const ModelTraceRecord& model : record.models) count += 6 + model.ranks.size();
  return count;
}

}  // namespace tutti::server
