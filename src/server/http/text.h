// Small texts as HTTP writes them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::server {

std::string_view trim(std::string_view text);                       // spaces and tabs at both ends
bool equals_ignoring_case(std::string_view a, std::string_view b);  // ASCII
std::vector<std::string_view> split(std::string_view text, char separator);

// "%20" and the like. Nothing when a '%' has no two hex digits behind it.
std::optional<std::string> percent_decoded(std::string_view text);

// Digits only. Nothing for anything else and for what does not fit.
std::optional<std::size_t> parse_size(std::string_view text);

// RFC 4648, with padding; line breaks are not taken. Nothing when it is none.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace tutti::server
