#include "graph/text_form.h"

#include <algorithm>
#include <cctype>

namespace tutti {

bool is_bare_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/';
}

std::string name_text(std::string_view name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_bare_character);
  return bare ? std::string(name) : quote(name);
}

std::string quote(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15U]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace tutti
