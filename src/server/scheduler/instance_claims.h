// What an instance shares with others while it runs: its ranks, and rate_limiter's resources.
#pragma once

#include <model_config.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/config/devices.h"
#include "server/scheduler/rate_limiter.h"

namespace tutti::server {

// --rate-limit and --rate-limit-resource.
struct RateLimitOptions {
  bool counts_executions = false;  // false: what rate_limiter says is not acted on
  // By name and device; without a device, for those that have no entry of their own.
  std::map<std::pair<std::string, std::optional<int>>, std::uint64_t> resources;

  // "NAME:COUNT" or "NAME:COUNT:DEVICE". INVALID_ARGUMENT names the part that is wrong.
  Status add_resource(std::string_view text);
  std::optional<std::uint64_t> find(const std::string& name, std::optional<int> device) const;
};

// An instance of several ranks has them to itself: ranks that wait for each other must not find
// another model's collectives between theirs. `device_kind`: "cpu", "cuda".
std::vector<ResourceClaim> instance_claims(const inference::ModelRateLimiter& limiter,
                                           const std::vector<int>& devices,
                                           std::string_view device_kind,
                                           const RateLimitOptions& options);

}  // namespace tutti::server
