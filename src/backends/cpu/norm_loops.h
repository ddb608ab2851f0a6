// What the loops of norms and softmax share: elements of any float type, computed in f32 (f64 in
// f64). Everything is inlined into functions that with_simd() compiles for the machine's vectors.
#pragma once

#include <cmath>

#include "backends/cpu/half_simd.h"
#include "backends/cpu/vector_math.h"
#include "base/dispatch.h"

namespace tutti::cpu {

TUTTI_INLINE inline double to_compute(double x) { return x; }
template <class T>
TUTTI_INLINE inline float to_compute(T x) {
  return to_float(x);
}

template <class T>
TUTTI_INLINE inline T from_compute(ComputeType<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return from_float<T>(x);
  }
}

TUTTI_INLINE inline float exp_of(float x) { return exp_approx(x); }
inline double exp_of(double x) { return std::exp(x); }

// Long sums go in pieces whose totals add up in double.
inline constexpr std::int64_t kSumPiece = 4096;

template <class T>
TUTTI_INLINE inline double sum_of(const T* x, std::int64_t n) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumPiece) {
    const std::int64_t end = std::min(n, begin + kSumPiece);
    ComputeType<T> sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = begin; i < end; ++i) sum += to_compute(x[i]);
    total += static_cast<double>(sum);
  }
  return total;
}

// The sum of (x - shift)^2.
template <class T>
TUTTI_INLINE inline double squares_of(const T* x, std::int64_t n, ComputeType<T> shift) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumPiece) {
    const std::int64_t end = std::min(n, begin + kSumPiece);
    ComputeType<T> sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = begin; i < end; ++i) {
      const ComputeType<T> difference = to_compute(x[i]) - shift;
      sum += difference * difference;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

// Calls f(TypeTag<T>{}) for a floating-point element type.
template <class F>
Status dispatch_floating(DType dtype, F&& f) {
  return dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<ComputeType<T>>) {
      return f(tag);
    } else {
      return invalid_argument("element type ", dtype_name(dtype),
                              "; expected a floating-point type");
    }
  });
}

}  // namespace tutti::cpu
