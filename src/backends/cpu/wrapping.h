// Arithmetic that wraps on integers, as it does in the models' frameworks, and is plain on floats.
#pragma once

#include <type_traits>

#include "backends/cpu/simd.h"

namespace tutti::cpu {

namespace internal {

// Where T's arithmetic is done: unsigned integers have no undefined overflow, and the narrow ones
// must not become int on the way.
template <class T, bool is_integer = std::is_integral_v<T>>
struct WrappingType {
  using type = T;
};
template <class T>
struct WrappingType<T, true> {
  using type = typename std::conditional_t<(sizeof(T) < sizeof(int)), std::type_identity<unsigned>,
                                           std::make_unsigned<T>>::type;
};

}  // namespace internal

template <class T>
using Wrapping = typename internal::WrappingType<T>::type;

template <class T>
TUTTI_INLINE inline T wrapping_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
TUTTI_INLINE inline T wrapping_sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
TUTTI_INLINE inline T wrapping_mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

}  // namespace tutti::cpu
