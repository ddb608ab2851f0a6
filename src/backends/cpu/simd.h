// Runs a loop compiled for the best vector instructions that this machine has.
//
// The loop is a lambda marked TUTTI_INLINE; it and the TUTTI_INLINE functions that it calls are
// compiled once for each level:
//
//   with_simd([&]() TUTTI_INLINE { for (int i = 0; i < n; ++i) y[i] = exp_approx(x[i]); });
//
// Keep the body small and free of calls that are not TUTTI_INLINE: those stay baseline code.
#pragma once

namespace tutti::cpu {

#define TUTTI_INLINE __attribute__((always_inline))

// For __attribute__((target(..))).
#ifdef __clang__  // which builds the fuzzers, and has no name for the last one
#define TUTTI_TARGET_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
#else
#define TUTTI_TARGET_AVX512 \
  "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512"
#endif

enum class SimdLevel { kBaseline, kAvx2, kAvx512 };

inline SimdLevel simd_level() {
  static const SimdLevel level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
      return SimdLevel::kBaseline;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return SimdLevel::kAvx512;
    }
    return SimdLevel::kAvx2;
  }();
  return level;
}

namespace internal {

template <class F>
__attribute__((target(TUTTI_TARGET_AVX512))) void run_avx512(const F& f) {
  f();
}

template <class F>
__attribute__((target("avx2,fma,f16c"))) void run_avx2(const F& f) {
  f();
}

}  // namespace internal

template <class F>
inline void with_simd(const F& f) {
  switch (simd_level()) {
    case SimdLevel::kAvx512: internal::run_avx512(f); break;
    case SimdLevel::kAvx2: internal::run_avx2(f); break;
    case SimdLevel::kBaseline: f(); break;
  }
}

}  // namespace tutti::cpu
