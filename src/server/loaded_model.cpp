#include "server/loaded_model.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "server/cache/recording_sink.h"
#include "server/config/request_signature.h"
#include "server/request_checks.h"
#include "server/scheduler/joined_batch.h"

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
  const auto refuse = [&](const Status& status, FailureReason reason) {
    statistics_->record_failure(now() - arrived, reason);
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
      done(std::move(response));
      return true;
    }
    miss.emplace(CacheMiss{key, now() - began,
                           std::make_shared<RecordingSink>(sink, request.outputs.size())});
  }
  auto pending = std::make_shared<PendingRequest>();
  pending->request = std::move(request);
  if (miss) {
    pending->sink = miss->sink;
  } else {
    pending->sink = sink;
  }
  pending->times.arrived = arrived;
  pending->batch_size = *batch;
  if (scheduling_.batching.joins()) pending->join_key = join_key(pending->request);
  pending->joins = !pending->request.has_device_tensors;
  if (!scheduling_.has_policies) apply_timeout(arrived, &pending->request);
  // `this` outlives the callback: retire() waits for every answer.
  pending->done = [this, batch = *batch, done, miss](PendingRequest& answered,
                                                     Result<InferResult> result) {
    if (result.ok() && miss) keep(*miss, *result);
    if (result.ok()) {
      const Status status = answered.sink->complete(max_batch_size() > 0, &result->outputs);
      if (!status.ok()) result = status;
    }
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
  TUTTI_RETURN_IF_ERROR(sink.complete(max_batch_size() > 0, &response.outputs));
  return response;
}

void LoadedModel::keep(const CacheMiss& miss, const InferResult& result) {
  const TimePoint began = now();
  cache_.cache->insert(miss.key, miss.sink->copy(result.outputs));
  statistics_->record_cache_miss(miss.lookup + (now() - began));
}

void LoadedModel::retire(std::optional<TimePoint> deadline) { scheduler_->stop(deadline); }

}  // namespace tutti::server
