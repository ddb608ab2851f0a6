// ONNX's pointwise operators as core operators.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "ops/pointwise.h"

namespace tutti {
namespace {

// The core operator has ONNX's name, inputs and attributes.
Status lower_same(LoweringContext& c) {
  std::vector<Value*> inputs;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  return finish(c, c.b.op(c.op_type, std::move(inputs), c.attributes));
}

// One input; float attributes that are absent take ONNX's defaults.
Status lower_activation(LoweringContext& c,
                        std::initializer_list<std::pair<const char*, double>> defaults) {
  AttributeMap attributes;
  for (const auto& [name, value] : defaults) attributes.emplace(name, c.attr_float(name, value));
  return finish(c, c.b.op(c.op_type, {c.input(0)}, std::move(attributes)));
}

Status lower_elu(LoweringContext& c) { return lower_activation(c, {{"alpha", 1.0}}); }
Status lower_leaky_relu(LoweringContext& c) {
  return lower_activation(c, {{"alpha", 0.009999999776482582}});
}
Status lower_hard_sigmoid(LoweringContext& c) {
  return lower_activation(c, {{"alpha", 0.20000000298023224}, {"beta", 0.5}});
}
Status lower_selu(LoweringContext& c) {
  return lower_activation(
      c, {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}});
}

Status lower_swish(LoweringContext& c) {
  const double alpha = c.attr_float("alpha", 1.0);
  Value* x = c.input(0);
  if (alpha == 1.0) return finish(c, c.b.op("Silu", {x}));
  Value* gate = c.b.op("Sigmoid", {c.b.op("Mul", {x, scalar_like(c, x, alpha)})});
  return finish(c, c.b.op("Mul", {x, gate}));
}

Status lower_shrink(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  const double bias = c.attr_float("bias", 0.0);
  const double lambda = c.attr_float("lambd", 0.5);
  Value* above = c.b.op("Greater", {x, scalar_like(c, x, lambda)});
  Value* below = c.b.op("Less", {x, scalar_like(c, x, -lambda)});
  Value* lowered = c.b.op("Sub", {x, scalar_like(c, x, bias)});
  Value* raised = c.b.op("Add", {x, scalar_like(c, x, bias)});
  Value* rest = c.b.op("Where", {below, raised, scalar_like(c, x, 0)});
  return finish(c, c.b.op("Where", {above, lowered, rest}));
}

// Max, Min, Sum and Mean of any number of operands.
Status lower_variadic(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, std::max<std::size_t>(c.num_inputs(), 1)));
  const bool is_sum = c.op_type == "Sum" || c.op_type == "Mean";
  Value* result = c.input(0);
  for (std::size_t i = 1; i < c.num_inputs(); ++i) {
    result = c.b.op(is_sum ? "Add" : c.op_type, {result, c.input(i)});
  }
  if (c.op_type == "Mean" && c.num_inputs() > 1) {
    result = c.b.op("Div", {result, scalar_like(c, result, static_cast<double>(c.num_inputs()))});
  }
  return finish(c, result);
}

// ONNX's bases and exponents may differ in type; the result has the base's.
Status lower_pow(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* base = c.input(0);
  Value* exponent = c.input(1);
  const DType type = base->dtype();
  if (exponent->dtype() == type) return finish(c, c.b.op("Pow", {base, exponent}));
  if (is_floating(exponent->dtype()) && !is_floating(type)) {
    // An integer base with a fraction as exponent: doubles hold the 32-bit integers exactly.
    Value* power =
        c.b.op("Pow", {c.b.cast(base, DType::kFloat64), c.b.cast(exponent, DType::kFloat64)});
    return finish(c, c.b.cast(power, type));
  }
  return finish(c, c.b.op("Pow", {base, c.b.cast(exponent, type)}));
}

Status lower_mod(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  const bool as_fmod = c.attr_int("fmod", 0) != 0;
  if (!as_fmod && is_floating(c.input(0)->dtype())) {
    return invalid_argument("fmod = 0 with element type ", dtype_name(c.input(0)->dtype()),
                            "; expected an integer type or fmod = 1");
  }
  return finish(c, c.b.op(as_fmod ? "Fmod" : "FloorMod", {c.input(0), c.input(1)}));
}

bool is_number(const Value* value) {
  return value->is_constant() && value->constant().element_count() == 1;
}

// Bounds that are constants become attributes; others are operands of Max and Min.
Status lower_clip(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  Value* low = c.input(1);
  Value* high = c.input(2);
  const bool exact = x->dtype() != DType::kInt64 && x->dtype() != DType::kUInt64;
  if (exact && (low == nullptr || is_number(low)) && (high == nullptr || is_number(high))) {
    AttributeMap bounds;
    TUTTI_ASSIGN_OR_RETURN(const double min, c.known_float(1, 0));
    TUTTI_ASSIGN_OR_RETURN(const double max, c.known_float(2, 0));
    if (low != nullptr) bounds.emplace("min", min);
    if (high != nullptr) bounds.emplace("max", max);
    return finish(c, bounds.empty() ? x : c.b.op("Clip", {x}, std::move(bounds)));
  }
  if (low != nullptr) x = c.b.op("Max", {x, reshape_to(c.b, low, {})});
  if (high != nullptr) x = c.b.op("Min", {x, reshape_to(c.b, high, {})});
  return finish(c, x);
}

Status cast_to(LoweringContext& c, DType to) {
  Value* x = c.input(0);
  if (to == x->dtype()) return finish(c, x);
  return finish(c, c.b.op("Cast", {x}, {{"to", std::string(dtype_name(to))}}));
}

Status lower_cast(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  TUTTI_ASSIGN_OR_RETURN(const DType to, dtype_from_onnx(static_cast<int>(c.attr_int("to", 0))));
  return cast_to(c, to);
}

Status lower_cast_like(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  return cast_to(c, c.input(1)->dtype());
}

Status lower_identity(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  return finish(c, c.input(0));
}

// At inference, or with a ratio of 0, nothing is dropped.
Status lower_dropout(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.input(2) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::int64_t> training, c.known_ints(2));
    TUTTI_ASSIGN_OR_RETURN(const double ratio, c.known_float(1, 0.5));
    if (!training.empty() && training[0] != 0 && ratio != 0) {
      return unimplemented("training_mode is true; expected an inference model");
    }
  }
  if (c.outputs.size() > 1) {
    Value* yes = c.b.scalar(DType::kBool, 1);
    c.outputs[1] = c.b.op("Fill", {yes}, {{"shape", c.input(0)->shape()}});
  }
  return finish(c, c.input(0));
}

// 1 where an element is the first maximum along the axis, 0 elsewhere.
Status lower_hardmax(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", -1, x->rank()));
  Value* winner = c.b.op(
      "ArgMax", {x},
      {{"axis", axis}, {"keepdims", std::int64_t{1}}, {"select_last_index", std::int64_t{0}}});
  Value* positions = c.b.op("Iota", {c.b.scalar(DType::kInt64, 0), c.b.scalar(DType::kInt64, 1)},
                            {{"size", Shape{x->shape()[static_cast<std::size_t>(axis)]}}});
  Shape shape(x->rank(), Dim(1));
  shape[static_cast<std::size_t>(axis)] = x->shape()[static_cast<std::size_t>(axis)];
  Value* hits = c.b.op("Equal", {winner, reshape_to(c.b, positions, shape)});
  return finish(c, c.b.cast(hits, x->dtype()));
}

Status lower_constant(LoweringContext& c) {
  const auto tensor = [&](Tensor value) { return finish(c, c.b.constant(std::move(value))); };
  if (c.attributes.size() != 1) {
    return invalid_argument("Constant has ", c.attributes.size(), " attributes; expected one");
  }
  const auto& [name, attribute] = *c.attributes.begin();
  if (const auto* value = std::get_if<Tensor>(&attribute)) return tensor(*value);
  if (const auto* value = std::get_if<double>(&attribute)) {
    return tensor(Tensor::scalar(DType::kFloat32, *value));
  }
  if (const auto* value = std::get_if<std::int64_t>(&attribute)) {
    return tensor(Tensor::of(Dims{}, std::span(value, 1)));
  }
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    return tensor(Tensor::ints(*value));
  }
  if (const auto* value = std::get_if<std::vector<double>>(&attribute)) {
    const std::vector<float> floats(value->begin(), value->end());
    const Dims dims{static_cast<std::int64_t>(floats.size())};
    return tensor(Tensor::of(dims, std::span(floats)));
  }
  return unimplemented("attribute '", name,
                       "' of Constant is not supported; supported: value, "
                       "value_float, value_floats, value_int, value_ints");
}

using Rule = Status (*)(LoweringContext&);

void add(LoweringRegistry* lowerings, std::string_view type, Rule rule,
         std::vector<std::string> attributes = {}) {
  Lowering lowering;
  lowering.op_type = type;
  lowering.attributes = std::move(attributes);
  lowering.lower = rule;
  lowerings->add(std::move(lowering));
}

}  // namespace

void register_pointwise_lowerings(LoweringRegistry* lowerings) {
  for (const char* type : {"Abs",
                           "Acos",
                           "Acosh",
                           "Add",
                           "And",
                           "Asin",
                           "Asinh",
                           "Atan",
                           "Atanh",
                           "BitwiseAnd",
                           "BitwiseNot",
                           "BitwiseOr",
                           "BitwiseXor",
                           "Ceil",
                           "Cos",
                           "Cosh",
                           "Div",
                           "Equal",
                           "Erf",
                           "Exp",
                           "Floor",
                           "Greater",
                           "GreaterOrEqual",
                           "HardSwish",
                           "IsNaN",
                           "Less",
                           "LessOrEqual",
                           "Log",
                           "Mish",
                           "Mul",
                           "Neg",
                           "Not",
                           "Or",
                           "PRelu",
                           "Reciprocal",
                           "Relu",
                           "Round",
                           "Sigmoid",
                           "Sign",
                           "Sin",
                           "Sinh",
                           "Softplus",
                           "Softsign",
                           "Sqrt",
                           "Sub",
                           "Tan",
                           "Tanh",
                           "Where",
                           "Xor"}) {
    add(lowerings, type, lower_same);
  }
  add(lowerings, "BitShift", lower_same, {"direction"});
  add(lowerings, "IsInf", lower_same, {"detect_negative", "detect_positive"});
  add(lowerings, "Gelu", lower_same, {"approximate"});
  for (const char* type : {"Elu", "Celu", "ThresholdedRelu"}) {
    add(lowerings, type, lower_elu, {"alpha"});
  }
  add(lowerings, "LeakyRelu", lower_leaky_relu, {"alpha"});
  add(lowerings, "HardSigmoid", lower_hard_sigmoid, {"alpha", "beta"});
  add(lowerings, "Selu", lower_selu, {"alpha", "gamma"});
  add(lowerings, "Swish", lower_swish, {"alpha"});
  add(lowerings, "Shrink", lower_shrink, {"bias", "lambd"});
  for (const char* type : {"Max", "Min", "Sum", "Mean"}) add(lowerings, type, lower_variadic);
  add(lowerings, "Pow", lower_pow);
  add(lowerings, "Mod", lower_mod, {"fmod"});
  add(lowerings, "Clip", lower_clip);
  // saturate and round_mode concern 8-bit floats, which we do not have.
  add(lowerings, "Cast", lower_cast, {"to", "saturate", "round_mode"});
  add(lowerings, "CastLike", lower_cast_like, {"saturate", "round_mode"});
  add(lowerings, "Identity", lower_identity);
  add(lowerings, "Dropout", lower_dropout, {"seed", "ratio"});
  add(lowerings, "Hardmax", lower_hardmax, {"axis"});
  add(lowerings, "Constant", lower_constant,
      {"value", "value_float", "value_floats", "value_int", "value_ints"});
}

}  // namespace tutti
