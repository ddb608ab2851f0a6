// How large the formula of a size may grow: they come from files, and a few nodes can square or
// double one again and again.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti {

inline constexpr std::size_t kMaxSizeTerms = 4096;
inline constexpr std::size_t kMaxSizeFactors = 64;  // of a term
inline constexpr std::size_t kMaxSizeText = 16384;  // characters

// The symbol that a Dim becomes past those limits. No text reads as it, nothing binds it, and
// check_limits() (type_limits.h) refuses a type that holds it.
inline constexpr std::string_view kTooLargeSize = "(too large)";

}  // namespace tutti
