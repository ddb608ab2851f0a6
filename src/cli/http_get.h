// A document over plain HTTP, for commands that look at a running server.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace tutti::cli {

// `address`: "HOST:PORT", with http:// in front or not. The body of a 200. UNAVAILABLE when nobody
// answers within `patience`, another status or something that is no HTTP.
Result<std::string> http_get(const std::string& address, const std::string& path,
                             std::chrono::milliseconds patience);

}  // namespace tutti::cli
