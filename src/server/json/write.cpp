#include "server/json/write.h"

#include "base/utf8.h"

namespace tutti::server {
namespace {

void append_escaped(char c, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"': out->append("\\\""); break;
    case '\\': out->append("\\\\"); break;
    case '\n': out->append("\\n"); break;
    case '\r': out->append("\\r"); break;
    case '\t': out->append("\\t"); break;
    default:
      out->append("\\u00");
      out->push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out->push_back(kHex[static_cast<unsigned char>(c) & 15U]);
  }
}

}  // namespace

void append_json_string(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    std::size_t length = utf8_length(text);
    if (length == 0) {
      out->append("\xEF\xBF\xBD");
      length = 1;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
      append_escaped(c, out);
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out->push_back('"');
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(text, &out);
  return out;
}

}  // namespace tutti::server
