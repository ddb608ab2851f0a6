#include "server/loaded_model.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "server/cache/recording_sink.h"
#include "server/config/request_signature.h"
#include "server/request_checks.h"
#include "server/scheduler/joined_batch.h"
#include "server/trace/trace.h"

namespace tutti::server {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

std::uint64_t wall_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

// Without a queue policy the time that a request gives itself is for its whole way.
void apply_timeout(TimePoint arrived, InferRequest* request) {
  if (!request->timeout) return;
  const TimePoint deadline = arrived + *request->timeout;
  if (!request->deadline || deadline < *request->deadline) request->deadline = deadline;
}

FailureReason failure_reason(const PendingRequest& request, const Status& status) {
  if (status.code() == StatusCode::kCancelled) return FailureReason::kCanceled;
  const bool has_run = request.times.started != TimePoint();
  return has_run ? FailureReason::kBackend : FailureReason::kRejected;
}

void end_trace(const std::shared_ptr<ModelTrace>& trace, const RequestTimes& times,
               const Status& status) {
  if (!trace) return;
  ModelTraceRecord& record = trace->record();
  record.times = times;
  record.status = status;
  record.ended = now();
}

void trace_inputs(const InferRequest& request) {
  for (const InferInput& input : request.inputs) {
    request.trace->add_tensor("TENSOR_QUEUE_INPUT", input.name, input.dtype, input.shape,
                              input.data);
  }
}

void trace_outputs(const InferRequest& request, const InferResult& result,
                   const RecordingSink& sink) {
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const OutputDesc& output = result.outputs[i];
    request.trace->add_tensor("TENSOR_BACKEND_OUTPUT", output.name, output.dtype, output.shape,
                              sink.data(i));
  }
}

}  // namespace

LoadedModel::LoadedModel(std::string name, std::int64_t version, inference::ModelConfig config,
                         std::shared_ptr<ModelStatistics> statistics,
                         std::unique_ptr<RequestScheduler> scheduler, CacheSlot cache)
    : name_(std::move(name)),
      version_(version),
      config_(std::move(config)),
      signature_(request_signature(config_)),
      scheduling_(scheduling_options(config_, 0)),
      statistics_(std::move(statistics)),
      cache_(std::move(cache)),
      scheduler_(std::move(scheduler)) {}

LoadedModel::~LoadedModel() { retire(); }

bool LoadedModel::infer(InferRequest& request, const std::shared_ptr<OutputSink>& sink,
                        TimePoint arrived, InferDone& done) {
  const std::shared_ptr<ModelTrace> trace = request.trace;
  RequestTimes at_the_door;
  at_the_door.arrived = arrived;
  begin_trace(request);
  const auto refuse = [&](const Status& status, FailureReason reason) {
    statistics_->record_failure(now() - arrived, reason);
    end_trace(trace, at_the_door, status);
    done(status.with_context(str_cat("model '", name_, "'")));
    return true;
  };
  const bool wants_all_outputs = request.outputs.empty();
  const Result<std::int64_t> batch = check_request(signature_, max_batch_size(), &request);
  if (!batch.ok()) return refuse(batch.status(), FailureReason::kOther);
  std::optional<CacheMiss> miss;
  if (cache_.cache && !request.has_device_tensors) {
    const TimePoint began = now();
    const Hash128 key = response_key(cache_.model, request);
    if (const auto found = cache_.cache->find(key)) {
      Result<InferResponse> response = answer_from(*found, request, *sink);
      if (!response.ok()) return refuse(response.status(), FailureReason::kOther);
      statistics_->record_cache_hit(now() - arrived, now() - began, wall_ms());
      if (trace) trace->record().is_cached = true;
      end_trace(trace, at_the_door, Status());
      done(std::move(response));
      return true;
    }
    miss.emplace(CacheMiss{key, now() - began});
  }
  auto pending = std::make_shared<PendingRequest>();
  pending->sink = sink;
  std::shared_ptr<RecordingSink> recording;
  // What lies on a device is not for the host to read.
  const bool traces_tensors = trace && trace->wants_tensors() && !request.has_device_tensors;
  if (miss || traces_tensors) {
    recording = std::make_shared<RecordingSink>(sink, request.outputs.size());
    pending->sink = recording;
  }
  if (traces_tensors) trace_inputs(request);
  pending->request = std::move(request);
  pending->times.arrived = arrived;
  pending->batch_size = *batch;
  if (scheduling_.batching.joins()) pending->join_key = join_key(pending->request);
  pending->joins = !pending->request.has_device_tensors;
  if (!scheduling_.has_policies) apply_timeout(arrived, &pending->request);
  // `this` outlives the callback: retire() waits for every answer.
  pending->done = [this, batch = *batch, done, miss, recording, traces_tensors](
                      PendingRequest& answered, Result<InferResult> result) {
    if (result.ok() && miss) keep(*miss, *recording, *result);
    if (result.ok() && traces_tensors) trace_outputs(answered.request, *result, *recording);
    if (result.ok()) {
      const Status status = complete(*answered.sink, &result->outputs);
      if (!status.ok()) result = status;
    }
    end_trace(answered.request.trace, answered.times, result.status());
    if (!result.ok()) {
      statistics_->record_failure(answered.times.finished - answered.times.arrived,
                                  failure_reason(answered, result.status()));
      return done(result.status().with_context(str_cat("model '", name_, "'")));
    }
    statistics_->record_success(batch, answered.times, wall_ms());
    done(InferResponse{name_, std::to_string(version_), answered.request.id,
                       std::move(result->outputs)});
  };
  bool is_retired = false;
  if (const Status status = scheduler_->enqueue(pending, &is_retired); !status.ok()) {
    if (!is_retired) return refuse(status, FailureReason::kRejected);
    request = std::move(pending->request);
    if (wants_all_outputs) request.outputs.clear();  // the next version may have others
    return false;
  }
  return true;
}

Result<InferResponse> LoadedModel::answer_from(const CachedResponse& cached,
                                               const InferRequest& request,
                                               OutputSink& sink) const {
  InferResponse response{name_, std::to_string(version_), request.id, {}};
  for (std::size_t i = 0; i < cached.outputs.size(); ++i) {
    const CachedResponse::Output& output = cached.outputs[i];
    TUTTI_ASSIGN_OR_RETURN(std::byte * data, sink.allocate(i, output.desc, output.data.size()));
    if (!output.data.empty()) std::memcpy(data, output.data.data(), output.data.size());
    response.outputs.push_back(output.desc);
  }
  TUTTI_RETURN_IF_ERROR(complete(sink, &response.outputs));
  return response;
}

Status LoadedModel::complete(OutputSink& sink, std::vector<OutputDesc>* outputs) const {
  if (!labels_.empty()) {
    for (OutputDesc& output : *outputs) {
      const auto found = labels_.find(output.name);
      if (found != labels_.end()) output.labels = &found->second;
    }
  }
  return sink.complete(max_batch_size() > 0, outputs);
}

void LoadedModel::begin_trace(InferRequest& request) const {
  if (!request.trace) return;
  ModelTraceRecord& record = request.trace->record();
  record.model_name = name_;
  record.model_version = version_;
  record.request_id = request.id;
  request.rank_times = &record.ranks;
}

void LoadedModel::keep(const CacheMiss& miss, const RecordingSink& written,
                       const InferResult& result) {
  const TimePoint began = now();
  cache_.cache->insert(miss.key, written.copy(result.outputs));
  statistics_->record_cache_miss(miss.lookup + (now() - began));
}

void LoadedModel::retire(std::optional<TimePoint> deadline) { scheduler_->stop(deadline); }

}  // namespace tutti::server
