#include "base/str_cat.h"

#include <charconv>

namespace tutti::internal {

// Shortest text that reads back as the same number.
std::string format_float(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}

}  // namespace tutti::internal
