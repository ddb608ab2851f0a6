// How requests of one model wait and are joined: `dynamic_batching` of its configuration.
#pragma once

#include <model_config.pb.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tutti::server {

enum class TimeoutAction { kReject, kDelay };

// What becomes of requests of one priority level. Times are those in the queue alone.
struct QueuePolicy {
  TimeoutAction timeout_action = TimeoutAction::kReject;
  std::chrono::microseconds timeout{0};  // 0: none
  bool allows_override = false;          // a request may ask for a shorter one
  std::size_t max_queue_size = 0;        // 0: the capacity of the whole queue counts alone
};

struct BatchingOptions {
  std::int64_t max_batch_size = 0;               // up to 1: requests are never joined
  std::vector<std::int64_t> preferred;           // ascending; empty: max_batch_size
  std::chrono::microseconds max_queue_delay{0};  // how long a request waits for others
  bool preserves_ordering = false;               // answers come in the order of the queue

  bool joins() const { return max_batch_size > 1; }
};

struct SchedulingOptions {
  std::size_t capacity = 4096;  // waiting requests of all levels without a max_queue_size
  // The model has queue policies: a request's `timeout` and `priority` are theirs.
  bool has_policies = false;
  std::uint64_t priority_levels = 0;  // 0: one, and priorities are ignored
  std::uint64_t default_priority = 0;
  QueuePolicy default_policy;
  std::map<std::uint64_t, QueuePolicy> policies;  // of the levels that have their own
  BatchingOptions batching;

  // From 1, the most urgent; what a request that names `priority` gets.
  std::uint64_t level_of(std::uint64_t priority) const;
  const QueuePolicy& policy_of(std::uint64_t level) const;
};

// `config` has passed check_scheduling().
SchedulingOptions scheduling_options(const inference::ModelConfig& config, std::size_t capacity);

}  // namespace tutti::server
