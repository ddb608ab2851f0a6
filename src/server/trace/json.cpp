#include "server/trace/json.h"

#include <algorithm>

#include "server/json/write.h"

namespace tutti::server {
namespace {

std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

void append_timestamp(std::uint64_t id, const char* name, TimePoint time, std::string* out) {
  if (time == TimePoint()) return;  // never got there
  if (!out->empty()) *out += ',';
  *out += str_cat("{\"id\":", id, ",\"timestamps\":[{\"name\":\"", name,
                  "\",\"ns\":", nanoseconds(time), "}]}");
}

void append_description(const ModelTraceRecord& model, std::string* out) {
  if (!out->empty()) *out += ',';
  *out += str_cat("{\"id\":", model.id, ",\"model_name\":", json_string(model.model_name),
                  ",\"model_version\":", model.model_version);
  if (!model.request_id.empty()) {
    *out += str_cat(",\"request_id\":", json_string(model.request_id));
  }
  if (model.parent_id != 0) *out += str_cat(",\"parent_id\":", model.parent_id);
  *out += '}';
}

void append_tensor(std::uint64_t id, const TracedTensor& tensor, std::string* out) {
  std::string shape;
  for (const std::int64_t size : tensor.shape) shape += str_cat(shape.empty() ? "" : ",", size);
  *out += str_cat(",{\"id\":", id, ",\"activity\":\"", tensor.activity,
                  "\",\"tensor\":{\"name\":", json_string(tensor.name),
                  ",\"data\":", json_string(tensor.data), ",\"shape\":\"", shape, "\",\"dtype\":\"",
                  tensor.datatype, "\"}}");
}

void append_timestamps(const ModelTraceRecord& model, std::string* out) {
  const RequestTimes& times = model.times;
  append_timestamp(model.id, "REQUEST_START", times.arrived, out);
  append_timestamp(model.id, "QUEUE_START", times.queued, out);
  append_timestamp(model.id, "COMPUTE_START", times.started, out);
  append_timestamp(model.id, "COMPUTE_INPUT_END", times.inputs_ready, out);
  append_timestamp(model.id, "COMPUTE_OUTPUT_START", times.outputs_started, out);
  if (times.started != TimePoint()) {
    append_timestamp(model.id, "COMPUTE_END", times.finished, out);
  }
  append_timestamp(model.id, "REQUEST_END", model.ended, out);
}

}  // namespace

std::string trace_json(const TraceRecord& record) {
  std::string text;
  std::vector<const ModelTraceRecord*> models;
  for (const ModelTraceRecord& model : record.models) models.push_back(&model);
  // An ensemble ends after its steps; readers want it first.
  std::sort(models.begin(), models.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  for (const ModelTraceRecord* model : models) {
    append_description(*model, &text);
    if (record.has_timestamps) append_timestamps(*model, &text);
    for (const TracedTensor& tensor : model->tensors) append_tensor(model->id, tensor, &text);
  }
  if (!record.has_timestamps) return text;
  for (const TraceEvent& event : record.events) {
    append_timestamp(record.id, event.name, event.time, &text);
  }
  return text;
}

}  // namespace tutti::server
