#include "server/restrictions.h"

#include <algorithm>
#include <iterator>

#include "server/names.h"

namespace tutti::server {
namespace {

struct GroupName {
  CallGroup group;
  std::string_view name;
};

constexpr GroupName kGroups[] = {
    {CallGroup::kHealth, "health"},
    {CallGroup::kMetadata, "metadata"},
    {CallGroup::kInference, "inference"},
    {CallGroup::kSharedMemory, "shared-memory"},
    {CallGroup::kModelConfig, "model-config"},
    {CallGroup::kModelRepository, "model-repository"},
    {CallGroup::kStatistics, "statistics"},
    {CallGroup::kTrace, "trace"},
    {CallGroup::kLogging, "logging"},
};

Result<CallGroup> parse_group(std::string_view name) {
  std::string known;
  for (const GroupName& group : kGroups) {
    if (group.name == name) return group.group;
    known += str_cat(known.empty() ? "" : ", ", group.name);
  }
  return invalid_argument("'", printable(name), "' is no group of calls, expected one of ", known);
}

}  // namespace

std::string_view call_group_name(CallGroup group) {
  return std::find_if(std::begin(kGroups), std::end(kGroups),
                      [&](const GroupName& known) { return known.group == group; })
      ->name;
}

Status Restrictions::add(std::string_view flag) {
  const std::size_t colon = flag.find(':');
  const std::size_t equals = flag.find('=', colon == std::string_view::npos ? 0 : colon);
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals == colon + 1 ||
      equals + 1 == flag.size()) {
    return invalid_argument("expected GROUP[,GROUP...]:HEADER=VALUE");
  }
  const AccessKey key{std::string(flag.substr(colon + 1, equals - colon - 1)),
                      std::string(flag.substr(equals + 1))};
  std::string_view groups = flag.substr(0, colon);
  while (true) {
    const std::size_t comma = groups.find(',');
    TUTTI_ASSIGN_OR_RETURN(const CallGroup group, parse_group(groups.substr(0, comma)));
    if (!keys_.emplace(group, key).second) {
      return invalid_argument("group '", call_group_name(group), "' is restricted twice");
    }
    if (comma == std::string_view::npos) return Status();
    groups.remove_prefix(comma + 1);
  }
}

const AccessKey* Restrictions::find(CallGroup group) const {
  const auto found = keys_.find(group);
  return found == keys_.end() ? nullptr : &found->second;
}

bool equals_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace tutti::server
