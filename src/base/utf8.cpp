#include "base/utf8.h"

namespace tutti {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto is_tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !is_tail(1)) return 0;
  if (first < 0xE0) return 2;
  if (!is_tail(2)) return 0;
  if (first < 0xF0) {
    const bool is_overlong = first == 0xE0 && second < 0xA0;
    const bool is_surrogate = first == 0xED && second > 0x9F;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  const bool is_overlong = first == 0xF0 && second < 0x90;
  const bool is_too_large = first == 0xF4 && second > 0x8F;
  return is_overlong || is_too_large || !is_tail(3) ? 0 : 4;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void append_utf8(std::uint32_t code, std::string* out) {
  const auto tail = [&](unsigned shift) {
    out->push_back(static_cast<char>(0x80U | ((code >> shift) & 0x3FU)));
  };
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0U | (code >> 6)));
    tail(0);
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0U | (code >> 12)));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xF0U | (code >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace tutti
