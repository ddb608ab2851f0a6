// Elementary functions of float for loops that the compiler vectorises: no branches, no tables, no
// calls. Relative error below 3e-7 (about 2 ulp) unless a line says otherwise; NaN gives NaN,
// infinities give the limits (gelu, silu and mish give NaN at -inf). Use them inside with_simd()
// (simd.h).
//
// Coefficients are our own weighted minimax fits; the reductions are the textbook ones (J.-M.
// Muller, Elementary Functions, 3rd ed., chapters 3, 4 and 11).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "backends/cpu/simd.h"

namespace tutti::cpu {

namespace internal {

inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer

TUTTI_INLINE inline std::int32_t rounded_int(float magic_sum) {
  return std::bit_cast<std::int32_t>(magic_sum) - std::bit_cast<std::int32_t>(kRoundMagic);
}

// 2^n for n in [-126, 127].
TUTTI_INLINE inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

// (exp(r) - 1 - r) / r^2 for |r| <= 0.35.
TUTTI_INLINE inline float exp_tail(float r) {
  float p = 1.381446659e-3f;
  p = p * r + 8.368780444e-3f;
  p = p * r + 4.166839422e-2f;
  p = p * r + 1.666652011e-1f;
  return p * r + 4.999999341e-1f;
}

}  // namespace internal

TUTTI_INLINE inline float select(bool condition, float yes, float no) {
  return condition ? yes : no;
}
TUTTI_INLINE inline float fabs_approx(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
}
TUTTI_INLINE inline float copy_sign(float magnitude, float sign) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(magnitude) & 0x7fffffffU) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000U));
}

TUTTI_INLINE inline float exp_approx(float x) {
  const float low = x < -105.0f ? -105.0f : x;  // NaN passes both comparisons
  const float clamped = low > 89.0f ? 89.0f : low;
  const float sum = clamped * 1.44269504f + internal::kRoundMagic;
  const std::int32_t n = internal::rounded_int(sum);
  const float nf = sum - internal::kRoundMagic;
  const float r = (clamped - nf * 0.693359375f) + nf * 2.12194440e-4f;
  const float p = 1.0f + (r + r * r * internal::exp_tail(r));
  // Two factors, so that results below 2^-126 and past 2^128 come out right.
  const std::int32_t half = n >> 1;
  return p * internal::power_of_two(half) * internal::power_of_two(n - half);
}

// exp(x) - 1, accurate near 0.
TUTTI_INLINE inline float expm1_approx(float x) {
  float p = 1.999318339e-4f;
  p = p * x + 1.399744694e-3f;
  p = p * x + 8.333071923e-3f;
  p = p * x + 4.166531582e-2f;
  p = p * x + 1.666666802e-1f;
  p = p * x + 5.000000417e-1f;
  const float near = x + x * x * p;
  const float far = exp_approx(x) - 1.0f;
  return fabs_approx(x) < 0.5f ? near : far;
}

namespace internal {

// log(x) for normal, positive, finite x; `exponent` is added to that of x.
TUTTI_INLINE inline float log_normal(float x, float exponent) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const std::int32_t e0 = static_cast<std::int32_t>(bits - 0x3f3504f3U) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e0) << 23));
  const float e = static_cast<float>(e0) + exponent;
  const float f = m - 1.0f;
  float p = 6.915420331e-2f;
  p = p * f - 1.178983347e-1f;
  p = p * f + 1.187296645e-1f;
  p = p * f - 1.238434343e-1f;
  p = p * f + 1.421865879e-1f;
  p = p * f - 1.666925113e-1f;
  p = p * f + 2.000222659e-1f;
  p = p * f - 2.499998659e-1f;
  p = p * f + 3.333331044e-1f;
  const float f2 = f * f;
  const float tail = f2 * f * p + e * -2.12194440e-4f - 0.5f * f2;
  return (f + tail) + e * 0.693359375f;
}

}  // namespace internal

TUTTI_INLINE inline float log_approx(float x) {
  const bool tiny = x < 1.17549435e-38f;  // subnormals are scaled by 2^23
  const float infinity = std::numeric_limits<float>::infinity();
  float result = internal::log_normal(tiny ? x * 8388608.0f : x, tiny ? -23.0f : 0.0f);
  result = x == infinity ? infinity : result;
  result = x == 0.0f ? -infinity : result;
  return x < 0.0f || x != x ? std::numeric_limits<float>::quiet_NaN() : result;
}

// log(1 + x) for x >= 0.
TUTTI_INLINE inline float log1p_approx(float x) {
  const float u = 1.0f + x;
  const float lost = x - (u - 1.0f);  // what rounding took from x
  const float result = internal::log_normal(u, 0.0f) + lost / u;
  return x <= 3.0e38f ? result : x;  // infinity and NaN as they are
}

TUTTI_INLINE inline float sigmoid_approx(float x) { return 1.0f / (1.0f + exp_approx(-x)); }

TUTTI_INLINE inline float tanh_approx(float x) {
  const float a = fabs_approx(x);
  const float u = x * x;
  float p = 2.147539521e-3f;
  p = p * u - 8.182676996e-3f;
  p = p * u + 2.170296849e-2f;
  p = p * u - 5.394720455e-2f;
  p = p * u + 1.333320977e-1f;
  p = p * u - 3.333333091e-1f;
  const float near = x + x * u * p;
  const float far = 1.0f - 2.0f / (exp_approx(a + a) + 1.0f);
  return a < 0.625f ? near : copy_sign(far, x);
}

TUTTI_INLINE inline float erf_approx(float x) {
  const float a = fabs_approx(x);
  const float u = x * x;
  float p = -9.680139685e-6f;
  p = p * u + 1.127054564e-4f;
  p = p * u - 8.484711607e-4f;
  p = p * u + 5.221074889e-3f;
  p = p * u - 2.686544583e-2f;
  p = p * u + 1.128378275e-1f;
  p = p * u - 3.761263848e-1f;
  p = p * u + 1.128379167e+0f;
  // log(erfc(a)) on [1, 4]; past 4 erf rounds to 1.
  const float c = a > 4.0f ? 4.0f : a;
  float q = -2.168677131e-5f;
  q = q * c + 4.413354018e-4f;
  q = q * c - 4.204556794e-3f;
  q = q * c + 2.520824233e-2f;
  q = q * c - 1.084185533e-1f;
  q = q * c - 6.332199167e-1f;
  q = q * c - 1.129578412e+0f;
  q = q * c + 1.880373658e-4f;
  const float far = 1.0f - exp_approx(q);
  return a < 1.0f ? x * p : copy_sign(far, x);
}

// Arguments of sin_approx and cos_approx must be within [-kTrigLimit, kTrigLimit] (or NaN): the
// reduction runs in double with two parts of pi/2.
inline constexpr float kTrigLimit = 1.0e6f;

namespace internal {

// sin(x + quadrant * pi/2). Absolute error below 1e-7.
TUTTI_INLINE inline float sin_shifted(float x, std::uint32_t quadrant) {
  const double wide = static_cast<double>(x);
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  const double sum = wide * 0.63661977236758134 + magic;
  const double n = sum - magic;
  const float r = static_cast<float>((wide - n * 1.5707963267341256) - n * 6.0771005065061922e-11);
  const std::uint32_t q = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(sum)) + quadrant;
  const float u = r * r;
  float s = 2.718274474e-6f;
  s = s * u - 1.983933100e-4f;
  s = s * u + 8.333329374e-3f;
  s = s * u - 1.666666664e-1f;
  const float sine = r + r * u * s;
  float c = -2.720989222e-7f;
  c = c * u + 2.479951588e-5f;
  c = c * u - 1.388888374e-3f;
  c = c * u + 4.166666662e-2f;
  const float cosine = 1.0f - 0.5f * u + u * u * c;
  const float magnitude = (q & 1U) != 0 ? cosine : sine;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) ^ ((q & 2U) << 30));
}

}  // namespace internal

TUTTI_INLINE inline float sin_approx(float x) { return internal::sin_shifted(x, 0); }
TUTTI_INLINE inline float cos_approx(float x) { return internal::sin_shifted(x, 1); }

// x * Phi(x) with the exact (erf) form, and the tanh form of the same.
TUTTI_INLINE inline float gelu_approx(float x) {
  return 0.5f * x * (1.0f + erf_approx(x * 0.70710678f));
}
TUTTI_INLINE inline float gelu_tanh_approx(float x) {
  // 0.5 * (1 + tanh(u)) is sigmoid(2u).
  return x * sigmoid_approx(1.59576912f * (x + 0.044715f * x * x * x));
}
TUTTI_INLINE inline float silu_approx(float x) { return x * sigmoid_approx(x); }

TUTTI_INLINE inline float softplus_approx(float x) {
  const float positive = x > 0.0f ? x : 0.0f;
  const float y = exp_approx(-fabs_approx(x));  // in [0, 1]
  const float u = 1.0f + y;
  return positive + (internal::log_normal(u, 0.0f) + (y - (u - 1.0f)) / u);
}

// x * tanh(softplus(x)): with e = exp(x), tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2).
TUTTI_INLINE inline float mish_approx(float x) {
  const float e = exp_approx(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return x > 20.0f ? x : x * (n / (n + 2.0f));
}

}  // namespace tutti::cpu
