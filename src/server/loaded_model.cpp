#include "server/loaded_model.h"

#include <chrono>
#include <utility>

#include "server/datatype.h"
#include "server/request_checks.h"

namespace tutti::server {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

std::uint64_t wall_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

FailureReason failure_reason(const PendingRequest& request, const Status& status) {
  if (status.code() == StatusCode::kCancelled) return FailureReason::kCanceled;
  const bool has_run = request.times.started != TimePoint();
  return has_run ? FailureReason::kBackend : FailureReason::kRejected;
}

template <class Tensors>
std::vector<TensorSpec> request_specs(const Tensors& tensors, bool is_batched) {
  std::vector<TensorSpec> specs;
  for (const auto& tensor : tensors) {
    TensorSpec spec{tensor.name(), DType::kUndefined, {}};
    if (const auto dtype = from_config_type(tensor.data_type()); dtype.ok()) spec.dtype = *dtype;
    if (is_batched) spec.dims.push_back(-1);
    spec.dims.insert(spec.dims.end(), tensor.dims().begin(), tensor.dims().end());
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

LoadedModel::LoadedModel(std::string name, std::int64_t version, inference::ModelConfig config,
                         std::vector<std::unique_ptr<ServableModel>> instances,
                         std::size_t queue_capacity)
    : name_(std::move(name)),
      version_(version),
      config_(std::move(config)),
      signature_{request_specs(config_.input(), config_.max_batch_size() > 0),
                 request_specs(config_.output(), config_.max_batch_size() > 0)},
      scheduler_(std::move(instances), queue_capacity) {}

LoadedModel::~LoadedModel() { retire(); }

bool LoadedModel::infer(InferRequest& request, const std::shared_ptr<OutputSink>& sink,
                        TimePoint arrived, InferDone& done) {
  const auto refuse = [&](const Status& status, FailureReason reason) {
    statistics_.record_failure(now() - arrived, reason);
    done(status.with_context(str_cat("model '", name_, "'")));
    return true;
  };
  const bool wants_all_outputs = request.outputs.empty();
  const Result<std::int64_t> batch = check_request(signature_, max_batch_size(), &request);
  if (!batch.ok()) return refuse(batch.status(), FailureReason::kOther);
  auto pending = std::make_shared<PendingRequest>();
  pending->request = std::move(request);
  pending->sink = sink;
  pending->times.arrived = arrived;
  // `this` outlives the callback: retire() waits for every answer.
  pending->done = [this, batch = *batch, done](PendingRequest& answered,
                                               Result<InferResult> result) {
    if (result.ok()) {
      const Status status = answered.sink->complete(max_batch_size() > 0, &result->outputs);
      if (!status.ok()) result = status;
    }
    if (!result.ok()) {
      statistics_.record_failure(answered.times.finished - answered.times.arrived,
                                 failure_reason(answered, result.status()));
      return done(result.status().with_context(str_cat("model '", name_, "'")));
    }
    statistics_.record_success(batch, answered.times, wall_ms());
    done(InferResponse{name_, std::to_string(version_), answered.request.id,
                       std::move(result->outputs)});
  };
  bool is_retired = false;
  if (const Status status = scheduler_.enqueue(pending, &is_retired); !status.ok()) {
    if (!is_retired) return refuse(status, FailureReason::kRejected);
    request = std::move(pending->request);
    if (wants_all_outputs) request.outputs.clear();  // the next version may have others
    return false;
  }
  return true;
}

void LoadedModel::retire(std::optional<TimePoint> deadline) { scheduler_.stop(deadline); }

}  // namespace tutti::server
