// UTF-8 as Unicode 15 defines it (table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Bytes of the character at the front of `text`; 0 when it is none.
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
// `code` is a scalar value: at most 0x10FFFF, no surrogate.
void append_utf8(std::uint32_t code, std::string* out);

}  // namespace tutti
