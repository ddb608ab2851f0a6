// What one model version has done so far, in the terms of Triton's ModelStatistics.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "server/scheduler/pending_request.h"

namespace tutti::server {

class LatencyMetrics;

struct DurationStatistic {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
  void add(std::chrono::nanoseconds duration);
  bool operator==(const DurationStatistic&) const = default;
};

struct PhaseStatistics {
  DurationStatistic compute_input;
  DurationStatistic compute_infer;
  DurationStatistic compute_output;
  bool operator==(const PhaseStatistics&) const = default;
};

// How many durations fell between which bounds: four bounds an octave, from a microsecond to 18
// hours, so that a quantile is right within a fifth.
class DurationHistogram {
 public:
  static constexpr std::size_t kBuckets = 144;
  void add(std::chrono::nanoseconds duration);
  // Bucket i holds what is above bound(i - 1) and not above bound(i); the last what is larger too.
  static double bound_us(std::size_t i);
  const std::array<std::uint64_t, kBuckets>& counts() const { return counts_; }
  // The upper bound of the bucket in which that share of all durations ends; 0 without any.
  double quantile_us(double share) const;

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
};

// Triton's words for why a request failed.
enum class FailureReason {
  kRejected,  // never ran: full queue, deadline passed in the queue
  kCanceled,
  kBackend,  // the model
  kOther,    // the request itself
};
inline constexpr std::array kFailureReasons = {FailureReason::kRejected, FailureReason::kCanceled,
                                               FailureReason::kBackend, FailureReason::kOther};
std::string_view failure_reason_name(FailureReason reason);  // "REJECTED"

struct StatisticsSnapshot {
  DurationHistogram latency;  // of what `success` counts
  DurationStatistic success;  // arrival to answer of the requests that succeeded
  DurationStatistic fail;     // the same of all others, whatever the reason
  DurationStatistic queue;    // of successful requests, as are the phases
  PhaseStatistics phases;
  DurationStatistic cache_hit;          // finding an answer and giving it
  DurationStatistic cache_miss;         // not finding one, and keeping the one that was made
  std::uint64_t inference_count = 0;    // batch elements of successful requests
  std::uint64_t execution_count = 0;    // runs of the model that succeeded
  std::uint64_t last_inference_ms = 0;  // since the epoch; 0 before the first success
  std::map<std::int64_t, PhaseStatistics> by_batch_size;
  std::array<std::uint64_t, kFailureReasons.size()> failures{};  // by reason; their sum is fail's
};

// Thread safe.
class ModelStatistics {
 public:
  // `latencies` is told of every success too; null for none.
  explicit ModelStatistics(std::shared_ptr<LatencyMetrics> latencies = nullptr)
      : latencies_(std::move(latencies)) {}

  // A request that was answered. `batch_size` is 1 for models that do not batch. `wall_ms` is the
  // time of day in ms.
  void record_success(std::int64_t batch_size, const RequestTimes& times, std::uint64_t wall_ms);
  // A run of the model, which may have answered several requests: `rows` is the batch it ran.
  void record_execution(std::int64_t rows, const RequestTimes& times);
  // A request that was answered from the cache: a success and nothing else.
  void record_cache_hit(std::chrono::nanoseconds request, std::chrono::nanoseconds lookup,
                        std::uint64_t wall_ms);
  void record_cache_miss(std::chrono::nanoseconds duration);
  void record_failure(std::chrono::nanoseconds duration,
                      FailureReason reason = FailureReason::kOther);
  StatisticsSnapshot snapshot() const;
  const std::shared_ptr<LatencyMetrics>& latencies() const { return latencies_; }

 private:
  const std::shared_ptr<LatencyMetrics> latencies_;
  mutable std::mutex mutex_;
  StatisticsSnapshot totals_;  // under mutex_
};

}  // namespace tutti::server
