// 16-bit floats to and from f32 without branches or calls, for loops inside with_simd().
#pragma once

#include <bit>
#include <cstdint>

#include "backends/cpu/simd.h"
#include "base/half.h"

namespace tutti::cpu {

TUTTI_INLINE inline float to_float(float x) { return x; }

TUTTI_INLINE inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// The exponent and mantissa move to their places in f32; a product with 2^112 corrects the bias and
// makes subnormals right.
TUTTI_INLINE inline float to_float(Half x) {
  const std::uint32_t magnitude = (x.bits & 0x7fffU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 5.192296858534828e33f;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  bits = magnitude >= 0x0f800000U ? (magnitude | 0x7f800000U) : bits;  // infinity and NaN
  return std::bit_cast<float>(bits | (static_cast<std::uint32_t>(x.bits & 0x8000U) << 16));
}

template <class T>
TUTTI_INLINE inline T from_float(float x);

template <>
TUTTI_INLINE inline float from_float<float>(float x) {
  return x;
}

template <>
TUTTI_INLINE inline BFloat16 from_float<BFloat16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  BFloat16 out;
  out.bits = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  return out;
}

// Normal results round by integer arithmetic on the bits; subnormal ones by adding 0.5, whose last
// bit is worth 2^-24, the smallest f16.
template <>
TUTTI_INLINE inline Half from_float<Half>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000U;
  std::uint32_t out = magnitude < 0x38800000U ? subnormal : normal;
  out = magnitude >= 0x477ff000U ? 0x7c00U : out;  // rounds past 65504
  out = magnitude > 0x7f800000U ? 0x7e00U : out;
  Half half;
  half.bits = static_cast<std::uint16_t>(out | ((bits >> 16) & 0x8000U));
  return half;
}

}  // namespace tutti::cpu
