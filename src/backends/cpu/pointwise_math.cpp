// Elementary functions and activations of one floating-point operand.
#include <cmath>

#include "backends/cpu/pointwise_loops.h"
#include "backends/cpu/vector_math.h"

namespace tutti::cpu {
namespace {

// float has vector forms (vector_math.h); double takes the library's functions.
#define TUTTI_MATH(name, vector_form, library_form) \
  template <class T>                                \
  TUTTI_INLINE inline T name(T x) {                 \
    if constexpr (std::is_same_v<T, float>) {       \
      return vector_form(x);                        \
    } else {                                        \
      return library_form(x);                       \
    }                                               \
  }

double gelu_double(double x) { return 0.5 * x * (1.0 + std::erf(x * 0.70710678118654752)); }
double gelu_tanh_double(double x) {
  return 0.5 * x * (1.0 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}
double sigmoid_double(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus_double(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double mish_double(double x) { return x * std::tanh(softplus_double(x)); }

TUTTI_MATH(math_exp, exp_approx, std::exp)
TUTTI_MATH(math_expm1, expm1_approx, std::expm1)
TUTTI_MATH(math_log, log_approx, std::log)
TUTTI_MATH(math_tanh, tanh_approx, std::tanh)
TUTTI_MATH(math_erf, erf_approx, std::erf)
TUTTI_MATH(math_sigmoid, sigmoid_approx, sigmoid_double)
TUTTI_MATH(math_softplus, softplus_approx, softplus_double)
TUTTI_MATH(math_gelu, gelu_approx, gelu_double)
TUTTI_MATH(math_gelu_tanh, gelu_tanh_approx, gelu_tanh_double)
TUTTI_MATH(math_mish, mish_approx, mish_double)

#undef TUTTI_MATH

template <class T>
TUTTI_INLINE inline T clamp01(T x) {
  const T low = x < T(0) ? T(0) : x;
  return low > T(1) ? T(1) : low;
}

// Op::apply(x, p0, p1) for unary_loop.
#define TUTTI_UNARY(Name, expression)                                                \
  struct Name {                                                                      \
    template <class T>                                                               \
    TUTTI_INLINE static T apply(T x, [[maybe_unused]] T p0, [[maybe_unused]] T p1) { \
      return expression;                                                             \
    }                                                                                \
  };

TUTTI_UNARY(Exp, math_exp(x))
TUTTI_UNARY(Log, math_log(x))
TUTTI_UNARY(Tanh, math_tanh(x))
TUTTI_UNARY(Erf, math_erf(x))
TUTTI_UNARY(Sigmoid, math_sigmoid(x))
TUTTI_UNARY(Softplus, math_softplus(x))
TUTTI_UNARY(Gelu, math_gelu(x))
TUTTI_UNARY(GeluTanh, math_gelu_tanh(x))
TUTTI_UNARY(Silu, x* math_sigmoid(x))
TUTTI_UNARY(Mish, math_mish(x))
TUTTI_UNARY(Elu, x < T(0) ? p0 * math_expm1(x) : x)
TUTTI_UNARY(Selu, p1*(x < T(0) ? p0 * math_expm1(x) : x))
TUTTI_UNARY(Celu, x < T(0) ? p0 * math_expm1(x / p0) : x)
TUTTI_UNARY(LeakyRelu, x < T(0) ? p0 * x : x)
TUTTI_UNARY(ThresholdedRelu, x > p0 ? x : T(0))
TUTTI_UNARY(HardSigmoid, clamp01(p0* x + p1))
TUTTI_UNARY(HardSwish, x* clamp01(x / T(6) + T(0.5)))
TUTTI_UNARY(Softsign, x / (T(1) + std::abs(x)))
TUTTI_UNARY(Reciprocal, T(1) / x)
TUTTI_UNARY(Sqrt, std::sqrt(x))
TUTTI_UNARY(Floor, std::floor(x))
TUTTI_UNARY(Ceil, std::ceil(x))
TUTTI_UNARY(Round, std::rint(x))  // ties to even: the rounding mode is never changed
TUTTI_UNARY(Acos, std::acos(x))
TUTTI_UNARY(Acosh, std::acosh(x))
TUTTI_UNARY(Asin, std::asin(x))
TUTTI_UNARY(Asinh, std::asinh(x))
TUTTI_UNARY(Atan, std::atan(x))
TUTTI_UNARY(Atanh, std::atanh(x))
TUTTI_UNARY(Cosh, std::cosh(x))
TUTTI_UNARY(Sinh, std::sinh(x))
TUTTI_UNARY(Tan, std::tan(x))
TUTTI_UNARY(Sin, std::sin(x))
TUTTI_UNARY(Cos, std::cos(x))

#undef TUTTI_UNARY

// Library calls do not vectorise: one copy of the loop is enough.
template <class T, class Op>
void library_loop(const LoopArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  for (std::int64_t i = 0; i < args.count; ++i) out[i] = Op::apply(a[i], T(0), T(0));
}

// sin(x + quadrant * pi/2); blocks with huge arguments take the library's reduction.
template <std::uint32_t quadrant, class Library>
void trig_loop(const LoopArgs& args) {
  const float* a = static_cast<const float*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  const std::int64_t count = args.count;
  int outside = 0;
  with_simd([&outside, a, count]() TUTTI_INLINE {
    int far = 0;
    for (std::int64_t i = 0; i < count; ++i) far |= fabs_approx(a[i]) > kTrigLimit ? 1 : 0;
    outside = far;
  });
  if (outside != 0) return library_loop<float, Library>(args);
  with_simd([=]() TUTTI_INLINE {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) out[i] = internal::sin_shifted(a[i], quadrant);
  });
}

struct Entry {
  std::string_view type;
  PointwiseLoop loop;
  int cost;
  const char* parameters[2];
};

template <class T, class Op>
constexpr Entry vector_entry(std::string_view type, int cost, const char* p0 = nullptr,
                             const char* p1 = nullptr) {
  return {type, unary_loop<T, T, Op>, cost, {p0, p1}};
}
template <class T, class Op>
constexpr Entry library_entry(std::string_view type) {
  return {type, library_loop<T, Op>, 60, {nullptr, nullptr}};
}
template <class T, std::uint32_t quadrant, class Op>
constexpr Entry trig_entry(std::string_view type) {
  if constexpr (std::is_same_v<T, float>) {
    return {type, trig_loop<quadrant, Op>, 8, {nullptr, nullptr}};
  } else {
    return library_entry<T, Op>(type);
  }
}

template <class T>
PointwiseOp find(const Node& node) {
  static constexpr Entry kEntries[] = {
      vector_entry<T, Exp>("Exp", 4),
      vector_entry<T, Log>("Log", 6),
      vector_entry<T, Tanh>("Tanh", 8),
      vector_entry<T, Erf>("Erf", 8),
      vector_entry<T, Sigmoid>("Sigmoid", 6),
      vector_entry<T, Softplus>("Softplus", 10),
      vector_entry<T, Gelu>("Gelu", 10),
      vector_entry<T, GeluTanh>("Gelu/tanh", 8),
      vector_entry<T, Silu>("Silu", 6),
      vector_entry<T, Mish>("Mish", 8),
      vector_entry<T, Elu>("Elu", 6, "alpha"),
      vector_entry<T, Selu>("Selu", 6, "alpha", "gamma"),
      vector_entry<T, Celu>("Celu", 6, "alpha"),
      vector_entry<T, LeakyRelu>("LeakyRelu", 1, "alpha"),
      vector_entry<T, ThresholdedRelu>("ThresholdedRelu", 1, "alpha"),
      vector_entry<T, HardSigmoid>("HardSigmoid", 2, "alpha", "beta"),
      vector_entry<T, HardSwish>("HardSwish", 2),
      vector_entry<T, Softsign>("Softsign", 2),
      vector_entry<T, Reciprocal>("Reciprocal", 2),
      vector_entry<T, Sqrt>("Sqrt", 2),
      vector_entry<T, Floor>("Floor", 1),
      vector_entry<T, Ceil>("Ceil", 1),
      vector_entry<T, Round>("Round", 1),
      trig_entry<T, 0, Sin>("Sin"),
      trig_entry<T, 1, Cos>("Cos"),
      library_entry<T, Acos>("Acos"),
      library_entry<T, Acosh>("Acosh"),
      library_entry<T, Asin>("Asin"),
      library_entry<T, Asinh>("Asinh"),
      library_entry<T, Atan>("Atan"),
      library_entry<T, Atanh>("Atanh"),
      library_entry<T, Cosh>("Cosh"),
      library_entry<T, Sinh>("Sinh"),
      library_entry<T, Tan>("Tan"),
  };
  const bool tanh_form = node.type() == "Gelu" && node.attr_string("approximate", "none") == "tanh";
  const std::string_view wanted = tanh_form ? std::string_view("Gelu/tanh") : node.type();
  for (const Entry& entry : kEntries) {
    if (entry.type != wanted) continue;
    PointwiseOp op{entry.loop, {0, 0}, entry.cost};
    for (int i = 0; i < 2; ++i) {
      if (entry.parameters[i] != nullptr) op.parameters[i] = node.attr_float(entry.parameters[i]);
    }
    return op;
  }
  return {};
}

}  // namespace

PointwiseOp find_math_loop(const Node& node, DType dtype) {
  if (dtype == DType::kFloat32) return find<float>(node);
  if (dtype == DType::kFloat64) return find<double>(node);
  return {};
}

}  // namespace tutti::cpu
