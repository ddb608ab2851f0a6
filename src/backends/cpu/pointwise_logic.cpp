// Comparisons, truth values, bits, and Where.
#include <limits>

#include "backends/cpu/pointwise_loops.h"

namespace tutti::cpu {
namespace {

using Bool = std::uint8_t;

#define TUTTI_COMPARISON(Name, expression)     \
  struct Name {                                \
    template <class T>                         \
    TUTTI_INLINE static bool apply(T a, T b) { \
      return expression;                       \
    }                                          \
  };
TUTTI_COMPARISON(Equal, a == b)
TUTTI_COMPARISON(Greater, a > b)
TUTTI_COMPARISON(GreaterOrEqual, a >= b)
TUTTI_COMPARISON(Less, a < b)
TUTTI_COMPARISON(LessOrEqual, a <= b)
TUTTI_COMPARISON(LogicalAnd, (a != 0) & (b != 0))
TUTTI_COMPARISON(LogicalOr, (a != 0) | (b != 0))
TUTTI_COMPARISON(LogicalXor, (a != 0) != (b != 0))
#undef TUTTI_COMPARISON

struct BitAnd {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// Shifts by the width or more leave nothing (C++ leaves them undefined).
struct ShiftLeft {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    const bool gone = static_cast<U>(b) >= sizeof(T) * 8;
    return gone ? T(0) : static_cast<T>(static_cast<std::uint64_t>(static_cast<U>(a)) << b);
  }
};
struct ShiftRight {
  template <class T>
  TUTTI_INLINE static T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    const bool gone = static_cast<U>(b) >= sizeof(T) * 8;
    return gone ? T(0) : static_cast<T>(a >> b);
  }
};

struct Not {
  template <class T>
  TUTTI_INLINE static bool apply(T x, T, T) {
    return x == T(0);
  }
};
struct BitNot {
  template <class T>
  TUTTI_INLINE static T apply(T x, T, T) {
    return static_cast<T>(~x);
  }
};
struct IsNan {
  template <class T>
  TUTTI_INLINE static bool apply(T x, T, T) {
    return x != x;
  }
};
struct IsInf {
  template <class T>
  TUTTI_INLINE static bool apply(T x, T negative, T positive) {
    const T infinity = std::numeric_limits<T>::infinity();
    return ((x == infinity) & (positive != 0)) | ((x == -infinity) & (negative != 0));
  }
};

template <class T>
void where_loop(const LoopArgs& args) {
  const Bool* condition = static_cast<const Bool*>(args.in[0]);
  const T* yes = static_cast<const T*>(args.in[1]);
  const T* no = static_cast<const T*>(args.in[2]);
  T* out = static_cast<T*>(args.out);
  const std::int64_t count = args.count;
  run_loop<T>([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const T a = yes[i];
      const T b = no[i];
      out[i] = condition[i] != 0 ? a : b;
    }
  });
}

template <class T>
PointwiseLoop find_comparison(std::string_view type) {
  if (type == "Equal") return binary_loop<T, Bool, Equal>;
  if (type == "Greater") return binary_loop<T, Bool, Greater>;
  if (type == "GreaterOrEqual") return binary_loop<T, Bool, GreaterOrEqual>;
  if (type == "Less") return binary_loop<T, Bool, Less>;
  if (type == "LessOrEqual") return binary_loop<T, Bool, LessOrEqual>;
  if (type == "Where") return where_loop<T>;
  if constexpr (std::is_floating_point_v<T>) {
    if (type == "IsNaN") return unary_loop<T, Bool, IsNan>;
    if (type == "IsInf") return unary_loop<T, Bool, IsInf>;
  }
  return nullptr;
}

template <class T>
PointwiseLoop find_bits(const Node& node) {
  const std::string& type = node.type();
  if (type == "BitwiseAnd") return binary_loop<T, T, BitAnd>;
  if (type == "BitwiseOr") return binary_loop<T, T, BitOr>;
  if (type == "BitwiseXor") return binary_loop<T, T, BitXor>;
  if (type == "BitwiseNot") return unary_loop<T, T, BitNot>;
  if (type == "BitShift") {
    return node.attr_string("direction") == "LEFT" ? binary_loop<T, T, ShiftLeft>
                                                   : binary_loop<T, T, ShiftRight>;
  }
  return nullptr;
}

PointwiseLoop find_truth(std::string_view type) {
  if (type == "And") return binary_loop<Bool, Bool, LogicalAnd>;
  if (type == "Or") return binary_loop<Bool, Bool, LogicalOr>;
  if (type == "Xor") return binary_loop<Bool, Bool, LogicalXor>;
  if (type == "Not") return unary_loop<Bool, Bool, Not>;
  return find_comparison<Bool>(type);
}

}  // namespace

PointwiseOp find_logic_loop(const Node& node, DType dtype) {
  PointwiseOp op;
  if (dtype == DType::kBool) {
    op.loop = find_truth(node.type());
    return op;
  }
  with_number_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    op.loop = find_comparison<T>(node.type());
    if constexpr (std::is_integral_v<T>) {
      if (op.loop == nullptr) op.loop = find_bits<T>(node);
    }
  });
  if (node.type() == "IsInf") {
    op.parameters[0] = static_cast<double>(node.attr_int("detect_negative", 1));
    op.parameters[1] = static_cast<double>(node.attr_int("detect_positive", 1));
  }
  return op;
}

}  // namespace tutti::cpu
