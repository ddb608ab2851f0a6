// The inner loops of pointwise operators: one operation over one block in cache.
//
// Loops work in compute types: float for the 16-bit floats, the type itself otherwise; truth values
// are bytes of 0 and 1. Operands are dense blocks; the result may be the same block as an operand
// of the same type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "backends/cpu/simd.h"
#include "base/dtype.h"
#include "graph/graph.h"

namespace tutti::cpu {

struct LoopArgs {
  const void* in[3] = {nullptr, nullptr, nullptr};
  void* out = nullptr;
  std::int64_t count = 0;
  double parameters[2] = {0, 0};
};

using PointwiseLoop = void (*)(const LoopArgs& args);

struct PointwiseOp {
  PointwiseLoop loop = nullptr;  // null: not an operation of this family
  double parameters[2] = {0, 0};
  int cost = 1;  // in units of an addition
};

// Where a type stands in a program of loops.
inline DType compute_dtype(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

// Loops for a node whose first operand (second for Where) computes in `dtype`.
PointwiseOp find_math_loop(const Node& node, DType dtype);        // functions of one float
PointwiseOp find_arithmetic_loop(const Node& node, DType dtype);  // Add, Max, Pow, Clip, ...
PointwiseOp find_logic_loop(const Node& node, DType dtype);  // Equal, And, BitShift, Where, ...
// From storage type `from` to storage type `to`; both blocks hold compute types.
PointwiseOp find_cast_loop(DType from, DType to);
// x ^ exponent with one exponent for all.
PointwiseOp find_power_loop(DType dtype, double exponent);

// Calls f(TypeTag<T>) for the compute types of numbers; false when dtype is none of them.
template <class F>
bool with_number_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: f(std::type_identity<float>{}); return true;
    case DType::kFloat64: f(std::type_identity<double>{}); return true;
    case DType::kInt8: f(std::type_identity<std::int8_t>{}); return true;
    case DType::kInt16: f(std::type_identity<std::int16_t>{}); return true;
    case DType::kInt32: f(std::type_identity<std::int32_t>{}); return true;
    case DType::kInt64: f(std::type_identity<std::int64_t>{}); return true;
    case DType::kUInt8: f(std::type_identity<std::uint8_t>{}); return true;
    case DType::kUInt16: f(std::type_identity<std::uint16_t>{}); return true;
    case DType::kUInt32: f(std::type_identity<std::uint32_t>{}); return true;
    case DType::kUInt64: f(std::type_identity<std::uint64_t>{}); return true;
    default: return false;
  }
}

// Only the types that models compute in are worth a copy of the loop for each instruction set.
template <class T>
inline constexpr bool kWorthSimd = std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>;

template <class T, class F>
inline void run_loop(const F& body) {
  if constexpr (kWorthSimd<T>) {
    with_simd(body);
  } else {
    body();
  }
}

// out[i] = Op::apply(a[i], p0, p1), T to R.
template <class T, class R, class Op>
void unary_loop(const LoopArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  R* out = static_cast<R*>(args.out);
  const std::int64_t count = args.count;
  const T p0 = static_cast<T>(args.parameters[0]);
  const T p1 = static_cast<T>(args.parameters[1]);
  run_loop<T>([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<R>(Op::apply(a[i], p0, p1));
  });
}

// out[i] = Op::apply(a[i], b[i]), T to R.
template <class T, class R, class Op>
void binary_loop(const LoopArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  R* out = static_cast<R*>(args.out);
  const std::int64_t count = args.count;
  run_loop<T>([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<R>(Op::apply(a[i], b[i]));
  });
}

}  // namespace tutti::cpu
