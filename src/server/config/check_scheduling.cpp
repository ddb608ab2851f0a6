#include "server/config/check_scheduling.h"

namespace tutti::server {
namespace {

using inference::ModelDynamicBatching;
using inference::ModelQueuePolicy;

Status check_preferred_sizes(const ConfigFile& file, const ModelDynamicBatching& batching) {
  const std::int64_t largest = file.config().max_batch_size();
  for (int i = 0; i < batching.preferred_batch_size_size(); ++i) {
    const std::int64_t size = batching.preferred_batch_size(i);
    if (size >= 1 && size <= largest) continue;
    return file.error(str_cat("dynamic_batching.preferred_batch_size[", i, "]"), size,
                      ", expected 1 to ", largest, ", the max_batch_size");
  }
  return Status();
}

Status check_priorities(const ConfigFile& file, const ModelDynamicBatching& batching) {
  const std::uint64_t levels = batching.priority_levels();
  if (levels == 0) return Status();
  const std::uint64_t standard = batching.default_priority_level();
  if (standard < 1 || standard > levels) {
    return file.error("dynamic_batching.default_priority_level", standard, ", expected 1 to ",
                      levels, ", the priority_levels");
  }
  for (const auto& [level, policy] : batching.priority_queue_policy()) {
    if (level >= 1 && level <= levels) continue;
    return file.error("dynamic_batching.priority_queue_policy", "key ", level, ", expected 1 to ",
                      levels, ", the priority_levels");
  }
  return Status();
}

bool may_delay(const ModelQueuePolicy& policy) {
  return policy.timeout_action() == ModelQueuePolicy::DELAY &&
         (policy.default_timeout_microseconds() != 0 || policy.allow_timeout_override());
}

Status check_order(const ConfigFile& file, const ModelDynamicBatching& batching) {
  constexpr std::string_view kField = "dynamic_batching.preserve_ordering";
  if (!batching.preserve_ordering()) return Status();
  if (batching.priority_levels() > 1) {
    return file.error(kField, "is true with ", batching.priority_levels(),
                      " priority_levels, expected at most 1");
  }
  bool is_delayed = may_delay(batching.default_queue_policy());
  for (const auto& [level, policy] : batching.priority_queue_policy()) {
    is_delayed = is_delayed || may_delay(policy);
  }
  if (is_delayed) {
    return file.error(kField,
                      "is true with a queue policy whose timeout_action is DELAY, expected REJECT");
  }
  return Status();
}

}  // namespace

Status check_scheduling(const ConfigFile& file) {
  const ModelDynamicBatching& batching = file.config().dynamic_batching();
  TUTTI_RETURN_IF_ERROR(check_preferred_sizes(file, batching));
  TUTTI_RETURN_IF_ERROR(check_priorities(file, batching));
  return check_order(file, batching);
}

}  // namespace tutti::server
