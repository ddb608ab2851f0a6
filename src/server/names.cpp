#include "server/names.h"

#include <algorithm>
#include <charconv>

namespace tutti::server {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool parse_digits(std::string_view text, std::int64_t* value) {
  if (!is_digits(text)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Status check_model_name(std::string_view name) {
  if (name.empty()) return invalid_argument("model name is empty");
  if (name == "." || name == ".." || name.find('/') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return invalid_argument("model name '", printable(name),
                            "' is no folder's name: expected no '/' and neither '.' nor '..'");
  }
  return Status();
}

Result<std::int64_t> parse_request_version(std::string_view text) {
  if (text.empty()) return std::int64_t{0};
  std::int64_t version = 0;
  if (!parse_digits(text, &version) || version == 0) {
    return invalid_argument("model version '", printable(text),
                            "' is no version: expected digits for a number from 1 to 2^63 - 1");
  }
  return version;
}

bool is_version_folder(std::string_view name, std::int64_t* version) {
  return !name.empty() && name.front() != '0' && parse_digits(name, version);
}

std::string printable(std::string_view text, std::size_t longest) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(c);
    } else {
      out += str_cat("\\x", kHex[byte >> 4], kHex[byte & 15U]);
    }
  }
  if (text.size() > longest) out += "...";
  return out;
}

}  // namespace tutti::server
