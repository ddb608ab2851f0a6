#include "backends/cuda/pointwise_code.h"

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cuda/generated_kernel.h"
#include "base/dispatch.h"
#include "base/hash.h"
#include "base/str_cat.h"

namespace tutti::cuda {
namespace {

// A literal of the compute type of `dtype` with exactly this value.
std::string literal(DType dtype, double value) {
  if (!is_floating(dtype)) {
    const std::string number =
        dtype == DType::kUInt64
            ? str_cat(static_cast<std::uint64_t>(value), "ull")
            : str_cat("(i64)0x",
                      Hash128{0, static_cast<std::uint64_t>(static_cast<std::int64_t>(value))}
                          .to_hex()
                          .substr(16),
                      "ull");
    return str_cat("(", type_name(dtype), ")(", number, ")");
  }
  if (dtype == DType::kFloat64) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    return str_cat("__longlong_as_double((i64)0x", Hash128{0, bits}.to_hex().substr(16), "ull)");
  }
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return str_cat("__uint_as_float(", bits, "u)");
}

// The same from a scalar tensor; 64-bit integers keep all their bits.
std::string literal(const Tensor& scalar) {
  if (is_integer(scalar.dtype())) {
    const std::int64_t value = scalar.to_ints()[0];
    const auto bits = static_cast<std::uint64_t>(value);
    return str_cat("(", type_name(scalar.dtype()), ")((i64)0x",
                   Hash128{0, bits}.to_hex().substr(16), "ull)");
  }
  return literal(scalar.dtype(), scalar.to_doubles()[0]);
}

struct Function {
  const char* name;
  std::vector<const char*> parameters = {};  // attributes, after the operands
};

const std::map<std::string, Function, std::less<>>& functions() {
  static const std::map<std::string, Function, std::less<>> table = {
      {"Add", {"op_add"}},
      {"Sub", {"op_sub"}},
      {"Mul", {"op_mul"}},
      {"Div", {"op_div"}},
      {"Max", {"op_max"}},
      {"Min", {"op_min"}},
      {"Fmod", {"op_fmod"}},
      {"FloorMod", {"op_floor_mod"}},
      {"Pow", {"op_pow"}},
      {"PRelu", {"op_prelu"}},
      {"Abs", {"op_abs"}},
      {"Neg", {"op_neg"}},
      {"Sign", {"op_sign"}},
      {"Relu", {"op_relu"}},
      {"Exp", {"exp"}},
      {"Log", {"log"}},
      {"Tanh", {"tanh"}},
      {"Erf", {"erf"}},
      {"Sigmoid", {"op_sigmoid"}},
      {"Softplus", {"op_softplus"}},
      {"Silu", {"op_silu"}},
      {"Mish", {"op_mish"}},
      {"Elu", {"op_elu", {"alpha"}}},
      {"Selu", {"op_selu", {"alpha", "gamma"}}},
      {"Celu", {"op_celu", {"alpha"}}},
      {"LeakyRelu", {"op_leaky_relu", {"alpha"}}},
      {"ThresholdedRelu", {"op_thresholded_relu", {"alpha"}}},
      {"HardSigmoid", {"op_hard_sigmoid", {"alpha", "beta"}}},
      {"HardSwish", {"op_hard_swish"}},
      {"Softsign", {"op_softsign"}},
      {"Reciprocal", {"op_reciprocal"}},
      {"Sqrt", {"sqrt"}},
      {"Floor", {"floor"}},
      {"Ceil", {"ceil"}},
      {"Round", {"rint"}},
      {"Acos", {"acos"}},
      {"Acosh", {"acosh"}},
      {"Asin", {"asin"}},
      {"Asinh", {"asinh"}},
      {"Atan", {"atan"}},
      {"Atanh", {"atanh"}},
      {"Cosh", {"cosh"}},
      {"Sinh", {"sinh"}},
      {"Tan", {"tan"}},
      {"Sin", {"sin"}},
      {"Cos", {"cos"}},
  };
  return table;
}

// Two operands between which the operator stands; the result is a truth value or the operands'
// type.
std::string_view infix(std::string_view type) {
  static const std::map<std::string_view, std::string_view> table = {
      {"Equal", "=="},       {"Greater", ">"},    {"GreaterOrEqual", ">="}, {"Less", "<"},
      {"LessOrEqual", "<="}, {"BitwiseAnd", "&"}, {"BitwiseOr", "|"},       {"BitwiseXor", "^"}};
  const auto found = table.find(type);
  return found == table.end() ? std::string_view() : found->second;
}

std::string clip(const Node& node, DType dtype, const std::string& x) {
  double least = -HUGE_VAL;
  double most = HUGE_VAL;
  if (!is_floating(dtype)) {
    (void)dispatch_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        least = static_cast<double>(std::numeric_limits<T>::lowest());
        most = static_cast<double>(std::numeric_limits<T>::max());
        if (std::numeric_limits<T>::digits > 53) most = std::nextafter(most, 0.0);
      }
      return Status();
    });
  }
  const double low = std::fmin(std::fmax(node.attr_float("min", least), least), most);
  const double high = std::fmin(std::fmax(node.attr_float("max", most), least), most);
  return str_cat("op_clip(", x, ", ", literal(dtype, low), ", ", literal(dtype, high), ")");
}

constexpr const char* kOwnForms[] = {
    "And",  "BitShift", "BitwiseAnd",  "BitwiseNot", "BitwiseOr",      "BitwiseXor", "Cast",
    "Clip", "Equal",    "Gelu",        "Greater",    "GreaterOrEqual", "IsInf",      "IsNaN",
    "Less", "Not",      "LessOrEqual", "Or",         "Where",          "Xor"};

}  // namespace

void BodyWriter::bind(const Value* value, const std::string& name, const Tensor* constant) {
  names_.try_emplace(value, name);
  if (constant != nullptr && constant->element_count() == 1) {
    numbers_.emplace(value, constant->to_doubles()[0]);
  }
}

Status BodyWriter::bind_constant(const Value* value) {
  if (value->constant().element_count() != 1) {
    return invalid_argument("constant '", value->name(), "' of the body is ", value->type(),
                            "; expected a scalar");
  }
  names_[value] = literal(value->constant());
  numbers_[value] = value->constant().to_doubles()[0];
  return {};
}

Status BodyWriter::add(const Node& node) {
  std::vector<std::string> operands;
  for (const Value* input : node.inputs()) {
    const auto found = names_.find(input);
    if (found == names_.end()) {
      return invalid_argument("operand '", input->name(), "' of ", node.describe(),
                              " comes from outside the body");
    }
    operands.push_back(found->second);
  }
  const std::string expression = expression_of(node, operands);
  if (expression.empty()) {
    return unimplemented("there is no code for ", node.type(), " over ",
                         dtype_name(node.input(0)->dtype()));
  }
  const std::string name = str_cat(prefix_, count_++);
  const std::string type = compute_name(node.output()->dtype());
  code_ += str_cat("      const ", type, " ", name, " = (", type, ")(", expression, ");\n");
  names_[node.output()] = name;
  return {};
}

Status BodyWriter::add_body(const Graph& body) {
  for (const Value* constant : body.constants()) TUTTI_RETURN_IF_ERROR(bind_constant(constant));
  for (const auto& node : body.nodes()) TUTTI_RETURN_IF_ERROR(add(*node));
  return {};
}

std::string BodyWriter::expression_of(const Node& node, const std::vector<std::string>& x) const {
  const std::string& type = node.type();
  const DType dtype = node.input(0)->dtype();
  if (type == "Cast") {
    if (node.output()->dtype() == DType::kBool) return str_cat(x[0], " != 0");
    return str_cat("op_cast<", type_name(node.output()->dtype()), ">(", x[0], ")");
  }
  if (type == "Where") return str_cat(x[0], " != 0 ? ", x[1], " : ", x[2]);
  if (type == "Not") return str_cat(x[0], " == 0");
  if (type == "And") return str_cat("(", x[0], " != 0) & (", x[1], " != 0)");
  if (type == "Or") return str_cat("(", x[0], " != 0) | (", x[1], " != 0)");
  if (type == "Xor") return str_cat("(", x[0], " != 0) != (", x[1], " != 0)");
  if (type == "BitwiseNot") return str_cat("~", x[0]);
  if (type == "IsNaN") return str_cat(x[0], " != ", x[0]);
  if (type == "IsInf") {
    return str_cat("op_is_inf(", x[0], ", ", node.attr_int("detect_negative", 1) != 0, ", ",
                   node.attr_int("detect_positive", 1) != 0, ")");
  }
  if (type == "BitShift") {
    const bool is_left = node.attr_string("direction") == "LEFT";
    return str_cat(is_left ? "op_shift_left(" : "op_shift_right(", x[0], ", ", x[1], ")");
  }
  if (type == "Clip") return clip(node, dtype, x[0]);
  if (type == "Gelu") {
    const bool is_tanh = node.attr_string("approximate", "none") == "tanh";
    return str_cat(is_tanh ? "op_gelu_tanh(" : "op_gelu(", x[0], ")");
  }
  if (type == "Pow") {
    const std::string special = power(node, dtype, x[0]);
    if (!special.empty()) return special;
  }
  if (const std::string_view between = infix(type); !between.empty()) {
    return str_cat(x[0], " ", between, " ", x[1]);
  }
  const auto found = functions().find(type);
  if (found == functions().end()) return "";
  std::string call = str_cat(found->second.name, "(");
  for (std::size_t i = 0; i < x.size(); ++i) call += (i > 0 ? ", " : "") + x[i];
  for (const char* parameter : found->second.parameters) {
    call += ", " + literal(dtype, node.attr_float(parameter));
  }
  return call + ")";
}

// Frequent exponents, where all elements have one.
std::string BodyWriter::power(const Node& node, DType dtype, const std::string& x) const {
  const auto exponent = numbers_.find(node.input(1));
  if (exponent == numbers_.end() || !is_floating(dtype)) return "";
  if (exponent->second == 1) return x;
  if (exponent->second == 2) return str_cat("op_square(", x, ")");
  if (exponent->second == 3) return str_cat("op_cube(", x, ")");
  if (exponent->second == 0.5) return str_cat("sqrt(", x, ")");
  if (exponent->second == -0.5) return str_cat("op_reciprocal(sqrt(", x, "))");
  if (exponent->second == -1) return str_cat("op_reciprocal(", x, ")");
  return "";
}

std::vector<std::string> pointwise_types() {
  std::vector<std::string> types(std::begin(kOwnForms), std::end(kOwnForms));
  for (const auto& [type, function] : functions()) types.push_back(type);
  return types;
}

}  // namespace tutti::cuda
