// Names and strings in the text form of graphs; shared by the printer and the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Tensors with more elements print as `data`, without them.
inline constexpr std::int64_t kMaxPrintedElements = 32;

// A name is bare when it consists of these; any other is quoted.
bool is_bare_character(char c);

std::string name_text(std::string_view name);

// "..." with \" \\ \n \t \xHH; other bytes stand for themselves.
std::string quote(std::string_view text);

}  // namespace tutti
