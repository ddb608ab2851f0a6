#include "server/scheduler/instance_claims.h"

#include <charconv>
#include <set>

#include "server/names.h"

namespace tutti::server {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Status RateLimitOptions::add_resource(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const std::size_t colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty()) {
    return invalid_argument("'", printable(text), "' is not NAME:COUNT or NAME:COUNT:DEVICE");
  }
  const auto count = parse_number<std::uint64_t>(parts[1]);
  if (!count || *count == 0) {
    return invalid_argument("count '", printable(parts[1]), "' of '", printable(text),
                            "', expected a whole number >= 1");
  }
  std::optional<int> device;
  if (parts.size() == 3) {
    device = parse_number<int>(parts[2]);
    if (!device || *device < 0) {
      return invalid_argument("device '", printable(parts[2]), "' of '", printable(text),
                              "', expected a whole number >= 0");
    }
  }
  resources[{std::string(parts[0]), device}] = *count;
  return Status();
}

std::optional<std::uint64_t> RateLimitOptions::find(const std::string& name,
                                                    std::optional<int> device) const {
  auto found = resources.find({name, device});
  if (found == resources.end()) found = resources.find({name, std::nullopt});
  if (found == resources.end()) return std::nullopt;
  return found->second;
}

std::vector<ResourceClaim> instance_claims(const inference::ModelRateLimiter& limiter,
                                           const std::vector<int>& devices,
                                           std::string_view device_kind,
                                           const RateLimitOptions& options) {
  const std::set<int> distinct(devices.begin(), devices.end());
  std::vector<ResourceClaim> claims;
  if (devices.size() > 1) {
    for (const int device : distinct) {
      claims.push_back({str_cat("rank ", device_kind, ":", device), 1, 1});
    }
  }
  if (!options.counts_executions) return claims;
  for (const auto& resource : limiter.resources()) {
    if (resource.global()) {
      claims.push_back({str_cat(resource.name(), " (global)"), resource.count(),
                        options.find(resource.name(), std::nullopt)});
      continue;
    }
    for (const int device : distinct) {
      claims.push_back({str_cat(resource.name(), " of ", device_kind, ":", device),
                        resource.count(), options.find(resource.name(), device)});
    }
  }
  return claims;
}

}  // namespace tutti::server
