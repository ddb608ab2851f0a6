// Names and texts that come from outside: models, versions, files, log lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::server {

// A model's name is one folder's name: not empty, not "." or "..", no '/', no NUL. "..." is legal.
// INVALID_ARGUMENT otherwise.
Status check_model_name(std::string_view name);

// The version of a request: digits only. 0 for the empty text, which asks for the newest version.
Result<std::int64_t> parse_request_version(std::string_view text);

// A version folder: digits, no leading zero. False for everything else.
bool is_version_folder(std::string_view name, std::int64_t* version);

// `text` as it may enter a log line or an error message: control characters and bytes outside ASCII
// are escaped, and what is past `longest` characters is cut: whole messages are longer than names.
inline constexpr std::size_t kLongestMessage = 4096;
std::string printable(std::string_view text, std::size_t longest = 200);

}  // namespace tutti::server
