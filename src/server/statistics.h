// What one model version has done so far, in the terms of Triton's ModelStatistics.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

#include "server/scheduler/request_queue.h"

namespace tutti::server {

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
  DurationStatistic success;  // arrival to answer of the requests that succeeded
  DurationStatistic fail;     // the same of all others, whatever the reason
  DurationStatistic queue;    // of successful requests, as are the phases
  PhaseStatistics phases;
  std::uint64_t inference_count = 0;    // batch elements of successful requests
  std::uint64_t execution_count = 0;    // runs of the model that succeeded
  std::uint64_t last_inference_ms = 0;  // since the epoch; 0 before the first success
  std::map<std::int64_t, PhaseStatistics> by_batch_size;
  std::array<std::uint64_t, kFailureReasons.size()> failures{};  // by reason; their sum is fail's
};

// Thread safe.
class ModelStatistics {
 public:
  // `batch_size` is 1 for models that do not batch. `wall_ms` is the time of day in ms.
  void record_success(std::int64_t batch_size, const RequestTimes& times, std::uint64_t wall_ms);
  void record_failure(std::chrono::nanoseconds duration,
                      FailureReason reason = FailureReason::kOther);
  StatisticsSnapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  StatisticsSnapshot totals_;  // under mutex_
};

}  // namespace tutti::server
