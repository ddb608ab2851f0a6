#include "backends/cpu/convert.h"

#include <cpuid.h>
#include <immintrin.h>

#include "backends/cpu/simd.h"

namespace tutti::cpu {
namespace {

__attribute__((target("avx2,f16c"))) std::int64_t half_to_float_f16c(const Half* source,
                                                                     float* target,
                                                                     std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(target + i, _mm256_cvtph_ps(bits));
  }
  return i;
}

__attribute__((target("avx2,f16c"))) std::int64_t float_to_half_f16c(const float* source,
                                                                     Half* target,
                                                                     std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits =
        _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), bits);
  }
  return i;
}

// Every AVX2 machine has F16C, but the two are told apart by different bits. Not all compilers have
// a name for this one: bit 29 of ECX, leaf 1 (Intel's manual, CPUID).
bool has_f16c() {
  static const bool has = [] {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return simd_level() != SimdLevel::kBaseline && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
  }();
  return has;
}

}  // namespace

void convert_to_float(const Half* source, float* target, std::int64_t count) {
  std::int64_t i = has_f16c() ? half_to_float_f16c(source, target, count) : 0;
  for (; i < count; ++i) target[i] = half_bits_to_float(source[i].bits);
}

void convert_from_float(const float* source, Half* target, std::int64_t count) {
  std::int64_t i = has_f16c() ? float_to_half_f16c(source, target, count) : 0;
  for (; i < count; ++i) target[i].bits = float_to_half_bits(source[i]);
}

void convert_to_float(const BFloat16* source, float* target, std::int64_t count) {
  with_simd([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = std::bit_cast<float>(static_cast<std::uint32_t>(source[i].bits) << 16);
    }
  });
}

void convert_from_float(const float* source, BFloat16* target, std::int64_t count) {
  with_simd([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(source[i]);
      const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
      const std::uint32_t quiet = (bits >> 16) | 0x40U;
      const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
      target[i].bits = static_cast<std::uint16_t>(is_nan ? quiet : rounded);
    }
  });
}

}  // namespace tutti::cpu
