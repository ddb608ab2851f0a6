#include "server/statistics.h"

namespace tutti::server {
namespace {

void add_phases(PhaseStatistics& phases, const RequestTimes& times) {
  phases.compute_input.add(times.inputs_ready - times.started);
  phases.compute_infer.add(times.outputs_started - times.inputs_ready);
  phases.compute_output.add(times.finished - times.outputs_started);
}

}  // namespace

std::string_view failure_reason_name(FailureReason reason) {
  switch (reason) {
    case FailureReason::kRejected: return "REJECTED";
    case FailureReason::kCanceled: return "CANCELED";
    case FailureReason::kBackend: return "BACKEND";
    case FailureReason::kOther: break;
  }
  return "OTHER";
}

void DurationStatistic::add(std::chrono::nanoseconds duration) {
  ++count;
  // A clock that steps back must not turn a sum of durations into a huge number.
  if (duration.count() > 0) ns += static_cast<std::uint64_t>(duration.count());
}

void ModelStatistics::record_success(std::int64_t batch_size, const RequestTimes& times,
                                     std::uint64_t wall_ms) {
  const std::lock_guard lock(mutex_);
  totals_.success.add(times.finished - times.arrived);
  totals_.queue.add(times.started - times.queued);
  add_phases(totals_.phases, times);
  add_phases(totals_.by_batch_size[batch_size], times);
  totals_.inference_count += static_cast<std::uint64_t>(batch_size);
  ++totals_.execution_count;
  totals_.last_inference_ms = wall_ms;
}

void ModelStatistics::record_failure(std::chrono::nanoseconds duration, FailureReason reason) {
  const std::lock_guard lock(mutex_);
  ++totals_.failures[static_cast<std::size_t>(reason)];
  totals_.fail.add(duration);
}

StatisticsSnapshot ModelStatistics::snapshot() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace tutti::server
