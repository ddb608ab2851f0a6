#include "server/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/metrics/latencies.h"

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

// Bounds are 2^(i / 4) us.
double DurationHistogram::bound_us(std::size_t i) { return std::exp2(static_cast<double>(i) / 4); }

void DurationHistogram::add(std::chrono::nanoseconds duration) {
  const double us = static_cast<double>(duration.count()) / 1000;
  const double position = us <= 1 ? 0 : std::ceil(std::log2(us) * 4);
  const auto bucket = std::min(static_cast<std::size_t>(position), kBuckets - 1);
  ++counts_[bucket];
}

double DurationHistogram::quantile_us(double share) const {
  const std::uint64_t all = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  const double wanted = share * static_cast<double>(all);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return bound_us(i);
  }
  return 0;
}

void DurationStatistic::add(std::chrono::nanoseconds duration) {
  ++count;
  // A clock that steps back must not turn a sum of durations into a huge number.
  if (duration.count() > 0) ns += static_cast<std::uint64_t>(duration.count());
}

void ModelStatistics::record_success(std::int64_t batch_size, const RequestTimes& times,
                                     std::uint64_t wall_ms) {
  if (latencies_) latencies_->add_success(times);
  const std::lock_guard lock(mutex_);
  totals_.success.add(times.finished - times.arrived);
  totals_.latency.add(times.finished - times.arrived);
  totals_.queue.add(times.started - times.queued);
  add_phases(totals_.phases, times);
  totals_.inference_count += static_cast<std::uint64_t>(batch_size);
  totals_.last_inference_ms = wall_ms;
}

void ModelStatistics::record_execution(std::int64_t rows, const RequestTimes& times) {
  const std::lock_guard lock(mutex_);
  add_phases(totals_.by_batch_size[rows], times);
  ++totals_.execution_count;
}

void ModelStatistics::record_cache_hit(std::chrono::nanoseconds request,
                                       std::chrono::nanoseconds lookup, std::uint64_t wall_ms) {
  if (latencies_) latencies_->add_cache_hit(request, lookup);
  const std::lock_guard lock(mutex_);
  totals_.success.add(request);
  totals_.latency.add(request);
  totals_.cache_hit.add(lookup);
  totals_.last_inference_ms = wall_ms;
}

void ModelStatistics::record_cache_miss(std::chrono::nanoseconds duration) {
  if (latencies_) latencies_->add_cache_miss(duration);
  const std::lock_guard lock(mutex_);
  totals_.cache_miss.add(duration);
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
