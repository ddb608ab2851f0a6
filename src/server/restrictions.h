// Groups of calls that a server can put behind a key, on either front end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::server {

enum class CallGroup {
  kHealth,
  kMetadata,
  kInference,
  kSharedMemory,
  kModelConfig,
  kModelRepository,
  kStatistics,
  kTrace,
  kLogging,
};

std::string_view call_group_name(CallGroup group);  // "shared-memory", as Triton's flags have it

struct AccessKey {
  std::string header;
  std::string value;
};

class Restrictions {
 public:
  // One flag's value, "GROUP[,GROUP...]:HEADER=VALUE". INVALID_ARGUMENT names what is wrong with
  // it, such as a group that an earlier flag restricts already.
  Status add(std::string_view flag);

  bool empty() const { return keys_.empty(); }
  // Nothing for a group that anyone may call.
  const AccessKey* find(CallGroup group) const;

 private:
  std::map<CallGroup, AccessKey> keys_;
};

// In a time that says nothing about where two texts of equal length differ.
bool equals_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tutti::server
