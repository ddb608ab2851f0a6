// Joins values into one string: str_cat("rank ", 3, " of ", n).
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

namespace internal {
std::string format_float(double value);

inline void append(std::string& out, std::string_view piece) { out.append(piece); }
inline void append(std::string& out, const char* piece) { out.append(piece); }
inline void append(std::string& out, char piece) { out.push_back(piece); }
inline void append(std::string& out, bool piece) { out.append(piece ? "true" : "false"); }
template <class T>
  requires std::is_arithmetic_v<T>
void append(std::string& out, T piece) {
  if constexpr (std::is_floating_point_v<T>) {
    out.append(format_float(static_cast<double>(piece)));
  } else {
    out.append(std::to_string(piece));
  }
}
// Anything with a to_string() member: Dim, Shape, Layout, Status.
template <class T>
  requires requires(const T& t) { t.to_string(); }
void append(std::string& out, const T& piece) { out.append(piece.to_string()); }
// [a, b, c]
template <class T>
void append(std::string& out, const std::vector<T>& pieces) {
  out.push_back('[');
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out.append(", ");
    append(out, static_cast<const T&>(pieces[i]));
  }
  out.push_back(']');
}
}  // namespace internal

template <class... Args>
std::string str_cat(const Args&... args) {
  std::string out;
  (internal::append(out, args), ...);
  return out;
}

}  // namespace tutti
