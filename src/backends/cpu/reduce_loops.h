// The loops of reductions over dense stretches, and how their results combine.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/convert.h"
#include "backends/cpu/vector_math.h"
#include "backends/cpu/wrapping.h"

namespace tutti::cpu {

enum class ReduceKind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };

// Elements are computed in C: float, double, i64 or u64. Sums of floats run in float over short
// stretches and in double (A) across them.
template <class C, ReduceKind kind>
using ReduceAccumulator = std::conditional_t<
    std::is_same_v<C, float> && kind != ReduceKind::kMax && kind != ReduceKind::kMin, double, C>;

// Only float loops are worth a copy for each instruction set.
template <class C, class F>
inline void run_reduction(const F& body) {
  if constexpr (std::is_same_v<C, float>) {
    with_simd(body);
  } else {
    body();
  }
}

// What an element adds; `shift` is the largest element for kLogSumExp.
template <ReduceKind kind, class C>
TUTTI_INLINE inline C reduce_map(C x, [[maybe_unused]] C shift) {
  if constexpr (kind == ReduceKind::kL1) {
    return x < C(0) ? wrapping_sub(C(0), x) : x;
  } else if constexpr (kind == ReduceKind::kL2 || kind == ReduceKind::kSumSquare) {
    return wrapping_mul(x, x);
  } else if constexpr (kind == ReduceKind::kLogSumExp) {
    if constexpr (std::is_same_v<C, float>) {
      return exp_approx(x - shift);
    } else {
      return std::exp(x - shift);
    }
  } else {
    return x;
  }
}

template <ReduceKind kind, class A>
A reduce_identity() {
  using Limits = std::numeric_limits<A>;
  if constexpr (kind == ReduceKind::kMax) {
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  } else if constexpr (kind == ReduceKind::kMin) {
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  } else {
    return kind == ReduceKind::kProd ? A(1) : A(0);
  }
}

template <ReduceKind kind, class A>
TUTTI_INLINE inline A reduce_combine(A a, A b) {
  if constexpr (kind == ReduceKind::kMax) {
    return a > b || a != a ? a : b;
  } else if constexpr (kind == ReduceKind::kMin) {
    return a < b || a != a ? a : b;
  } else if constexpr (kind == ReduceKind::kProd) {
    return wrapping_mul(a, b);
  } else {
    return wrapping_add(a, b);
  }
}

// The result over `count` elements from what was accumulated.
template <ReduceKind kind, class A>
auto reduce_finish(A total, std::int64_t count, double shift) {
  if constexpr (kind == ReduceKind::kMean) {
    if constexpr (std::is_integral_v<A>) {
      return count == 0 ? A(0) : static_cast<A>(total / static_cast<A>(count));
    } else {
      return static_cast<A>(total / static_cast<A>(count));
    }
  } else if constexpr (kind == ReduceKind::kL2) {
    return std::sqrt(static_cast<double>(total));
  } else if constexpr (kind == ReduceKind::kLogSum) {
    return std::log(static_cast<double>(total));
  } else if constexpr (kind == ReduceKind::kLogSumExp) {
    // An infinite or absent maximum is the result itself.
    return std::isfinite(shift) ? std::log(static_cast<double>(total)) + shift : shift;
  } else {
    return total;
  }
}

// Reduces a dense stretch of at most kRun elements, in kSideBySide interleaved results that combine
// at the end: short sums that add up exactly enough, and independent work for the vector units.
inline constexpr std::int64_t kRun = 1024;
inline constexpr std::int64_t kSideBySide = 64;

template <ReduceKind kind, class C>
C reduce_run(const C* x, std::int64_t count, C shift) {
  C lanes[kSideBySide];
  C* result = lanes;
  run_reduction<C>([result, x, count, shift]() TUTTI_INLINE {
    const std::int64_t width = count < 16 ? 1 : kSideBySide;
    for (std::int64_t l = 0; l < width; ++l) result[l] = reduce_identity<kind, C>();
    if (width == 1) {
      for (std::int64_t i = 0; i < count; ++i) {
        result[0] = reduce_combine<kind, C>(result[0], reduce_map<kind>(x[i], shift));
      }
      return;
    }
    std::int64_t i = 0;
    for (; i + kSideBySide <= count; i += kSideBySide) {
#pragma GCC ivdep
      for (std::int64_t l = 0; l < kSideBySide; ++l) {
        result[l] = reduce_combine<kind, C>(result[l], reduce_map<kind>(x[i + l], shift));
      }
    }
#pragma GCC ivdep
    for (std::int64_t l = 0; l < count - i; ++l) {
      result[l] = reduce_combine<kind, C>(result[l], reduce_map<kind>(x[i + l], shift));
    }
    for (std::int64_t half = kSideBySide / 2; half > 0; half /= 2) {
#pragma GCC ivdep
      for (std::int64_t l = 0; l < half; ++l) {
        result[l] = reduce_combine<kind, C>(result[l], result[l + half]);
      }
    }
  });
  return lanes[0];
}

// totals[i] = totals[i] combined with x[i].
template <ReduceKind kind, class C, class A>
void reduce_lanes(const C* x, A* totals, std::int64_t count, const C* shifts) {
  run_reduction<C>([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const C shift = kind == ReduceKind::kLogSumExp ? shifts[i] : C(0);
      totals[i] = reduce_combine<kind, A>(totals[i], static_cast<A>(reduce_map<kind>(x[i], shift)));
    }
  });
}

// Stored elements T as C, and one result back.
template <class T, class C>
void load_run(const void* source, C* target, std::int64_t count) {
  const T* x = static_cast<const T*>(source);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    convert_to_float(x, target, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<C>(x[i]);
  }
}

template <class T, class C>
void store_result(C value, void* target, std::int64_t i) {
  static_cast<T*>(target)[i] = static_cast<T>(value);
}

}  // namespace tutti::cpu
