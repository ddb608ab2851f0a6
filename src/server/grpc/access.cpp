#include "server/grpc/access.h"

#include <algorithm>
#include <string>

namespace tutti::server {

Status check_access(const grpc::CallbackServerContext& context, const Restrictions& restrictions,
                    CallGroup group) {
  const AccessKey* key = restrictions.find(group);
  if (key == nullptr) return Status();
  // HTTP/2 knows lower case only.
  std::string header = str_cat("triton-grpc-protocol-", key->header);
  std::transform(header.begin(), header.end(), header.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto [begin, end] = context.client_metadata().equal_range(header);
  const bool is_known = std::any_of(begin, end, [&](const auto& entry) {
    return equals_in_constant_time({entry.second.data(), entry.second.size()}, key->value);
  });
  if (is_known) return Status();
  return unavailable("This protocol is restricted, expecting header '", header, "'");
}

}  // namespace tutti::server
