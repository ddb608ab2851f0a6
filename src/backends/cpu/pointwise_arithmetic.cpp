// Arithmetic over all number types.
#include <cmath>
#include <limits>

#include "backends/cpu/pointwise_loops.h"
#include "backends/cpu/wrapping.h"

namespace tutti::cpu {
namespace {

struct Add {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return wrapping_add(a, b);
  }
};
struct Sub {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return wrapping_sub(a, b);
  }
};
struct Mul {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return wrapping_mul(a, b);
  }
};
// Integers: towards zero; a division by 0 gives 0 rather than a trap.
struct Div {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Sub::apply(T(0), a);  // the least number has no opposite
      }
      return static_cast<T>(a / b);
    }
  }
};
struct Max {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return a > b || a != a ? a : b;  // NaN wins from either side
  }
};
struct Min {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Fmod {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0 || (std::is_signed_v<T> && b == T(-1))) return 0;
      return static_cast<T>(a % b);
    }
  }
};
// The result has the divisor's sign.
struct FloorMod {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    const T rest = Fmod::apply(a, b);
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? Add::apply(rest, b) : rest;
  }
};

template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  T result = 1;
  for (auto left = static_cast<std::make_unsigned_t<T>>(exponent); left != 0;
       left = static_cast<std::make_unsigned_t<T>>(left >> 1)) {
    if ((left & 1) != 0) result = Mul::apply(result, base);
    base = Mul::apply(base, base);
  }
  return result;
}

struct Pow {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(a, b);
    } else {
      return integer_power(a, b);
    }
  }
};
struct PRelu {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return a < T(0) ? Mul::apply(a, b) : a;
  }
};

struct Abs {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::abs(x);
    } else {
      return x < T(0) ? Sub::apply(T(0), x) : x;
    }
  }
};
struct Neg {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    if constexpr (std::is_floating_point_v<T>) {
      return -x;
    } else {
      return Sub::apply(T(0), x);
    }
  }
};
struct Sign {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    const T sign = static_cast<T>((x > T(0) ? 1 : 0) - (x < T(0) ? 1 : 0));
    return x != x ? x : sign;
  }
};
struct Relu {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return x < T(0) ? T(0) : x;
  }
};
struct Clip {
  template <class T>
  TUTTI_INLINE static T apply(T x, T low, T high) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};
struct Square {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return Mul::apply(x, x);
  }
};
struct Cube {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return Mul::apply(Mul::apply(x, x), x);
  }
};
struct SquareRoot {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return std::sqrt(x);
  }
};
struct ReciprocalRoot {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return T(1) / std::sqrt(x);
  }
};
struct Inverse {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return T(1) / x;
  }
};
struct Same {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return x;
  }
};
struct PowerOf {
  template <class T>
  TUTTI_INLINE static T apply(T x, T exponent, T) {
    return std::pow(x, exponent);
  }
};

struct Entry {
  std::string_view type;
  PointwiseLoop loop;
  int cost;
};

template <class T>
PointwiseLoop clip_bounds(const Node& node, double* parameters) {
  using Limits = std::numeric_limits<T>;
  const bool floating = std::is_floating_point_v<T>;
  const double least = floating ? -HUGE_VAL : static_cast<double>(Limits::lowest());
  double most = floating ? HUGE_VAL : static_cast<double>(Limits::max());
  if (!floating && Limits::digits > 53) most = std::nextafter(most, 0.0);  // back into range
  const double low = node.attr_float("min", least);
  const double high = node.attr_float("max", most);
  parameters[0] = floating ? low : std::fmin(std::fmax(low, least), most);
  parameters[1] = floating ? high : std::fmin(std::fmax(high, least), most);
  return unary_loop<T, T, Clip>;
}

template <class T>
PointwiseOp find(const Node& node) {
  static constexpr Entry kEntries[] = {
      {"Add", binary_loop<T, T, Add>, 1},    {"Sub", binary_loop<T, T, Sub>, 1},
      {"Mul", binary_loop<T, T, Mul>, 1},    {"Div", binary_loop<T, T, Div>, 2},
      {"Max", binary_loop<T, T, Max>, 1},    {"Min", binary_loop<T, T, Min>, 1},
      {"Fmod", binary_loop<T, T, Fmod>, 30}, {"FloorMod", binary_loop<T, T, FloorMod>, 30},
      {"Pow", binary_loop<T, T, Pow>, 60},   {"PRelu", binary_loop<T, T, PRelu>, 1},
      {"Abs", unary_loop<T, T, Abs>, 1},     {"Neg", unary_loop<T, T, Neg>, 1},
      {"Sign", unary_loop<T, T, Sign>, 1},   {"Relu", unary_loop<T, T, Relu>, 1},
  };
  PointwiseOp op;
  if (node.type() == "Clip") {
    op.loop = clip_bounds<T>(node, op.parameters);
    return op;
  }
  for (const Entry& entry : kEntries) {
    if (entry.type == node.type()) return {entry.loop, {0, 0}, entry.cost};
  }
  return op;
}

template <class T>
PointwiseOp find_power(double exponent) {
  if (exponent == 1) return {unary_loop<T, T, Same>, {0, 0}, 1};
  if (exponent == 2) return {unary_loop<T, T, Square>, {0, 0}, 1};
  if (exponent == 3) return {unary_loop<T, T, Cube>, {0, 0}, 2};
  if (exponent == 0.5) return {unary_loop<T, T, SquareRoot>, {0, 0}, 2};
  if (exponent == -0.5) return {unary_loop<T, T, ReciprocalRoot>, {0, 0}, 3};
  if (exponent == -1) return {unary_loop<T, T, Inverse>, {0, 0}, 2};
  return {unary_loop<T, T, PowerOf>, {exponent, 0}, 60};
}

}  // namespace

PointwiseOp find_arithmetic_loop(const Node& node, DType dtype) {
  PointwiseOp op;
  with_number_type(dtype, [&](auto tag) { op = find<typename decltype(tag)::type>(node); });
  return op;
}

PointwiseOp find_power_loop(DType dtype, double exponent) {
  if (dtype == DType::kFloat32) return find_power<float>(exponent);
  if (dtype == DType::kFloat64) return find_power<double>(exponent);
  return {};
}

}  // namespace tutti::cpu
