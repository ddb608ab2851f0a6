#include "server/scheduler/scheduling_options.h"

#include <algorithm>

namespace tutti::server {
namespace {

// Longer ones pass what a clock can hold; nobody waits that long.
constexpr std::uint64_t kLongestUs = std::uint64_t{1} << 50;

std::chrono::microseconds microseconds(std::uint64_t us) {
  return std::chrono::microseconds(std::min(us, kLongestUs));
}

QueuePolicy queue_policy(const inference::ModelQueuePolicy& from) {
  QueuePolicy policy;
  policy.timeout_action = from.timeout_action() == inference::ModelQueuePolicy::DELAY
                              ? TimeoutAction::kDelay
                              : TimeoutAction::kReject;
  policy.timeout = microseconds(from.default_timeout_microseconds());
  policy.allows_override = from.allow_timeout_override();
  policy.max_queue_size = from.max_queue_size();
  return policy;
}

}  // namespace

std::uint64_t SchedulingOptions::level_of(std::uint64_t priority) const {
  if (priority_levels == 0) return 1;
  return priority == 0 || priority > priority_levels ? default_priority : priority;
}

const QueuePolicy& SchedulingOptions::policy_of(std::uint64_t level) const {
  const auto own = policies.find(level);
  return own == policies.end() ? default_policy : own->second;
}

SchedulingOptions scheduling_options(const inference::ModelConfig& config, std::size_t capacity) {
  SchedulingOptions options;
  options.capacity = capacity;
  if (!config.has_dynamic_batching()) return options;
  const inference::ModelDynamicBatching& from = config.dynamic_batching();
  options.has_policies = true;
  options.priority_levels = from.priority_levels();
  options.default_priority = from.default_priority_level();
  options.default_policy = queue_policy(from.default_queue_policy());
  for (const auto& [level, policy] : from.priority_queue_policy()) {
    options.policies.emplace(level, queue_policy(policy));
  }
  BatchingOptions& batching = options.batching;
  batching.max_batch_size = config.max_batch_size();
  batching.preferred.assign(from.preferred_batch_size().begin(), from.preferred_batch_size().end());
  std::sort(batching.preferred.begin(), batching.preferred.end());
  batching.max_queue_delay = microseconds(from.max_queue_delay_microseconds());
  batching.preserves_ordering = from.preserve_ordering();
  return options;
}

}  // namespace tutti::server
