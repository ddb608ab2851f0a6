// Pieces of JSON text.
#pragma once

#include <string>
#include <string_view>

namespace tutti::server {

// Quotes included; bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string_view text, std::string* out);
std::string json_string(std::string_view text);

}  // namespace tutti::server
