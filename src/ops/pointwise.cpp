// Pointwise core operators: forms, types, layout rule. Lowerings are in pointwise_lowering.cpp.
#include "ops/pointwise.h"

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

enum class Accept { kAny, kNumeric, kSigned, kFloat, kInteger, kBool };

bool accepts(Accept accept, DType dtype) {
  switch (accept) {
    case Accept::kAny: return dtype != DType::kString && dtype != DType::kUndefined;
    case Accept::kNumeric: return is_floating(dtype) || is_integer(dtype);
    case Accept::kSigned:
      return is_floating(dtype) || dtype == DType::kInt8 || dtype == DType::kInt16 ||
             dtype == DType::kInt32 || dtype == DType::kInt64;
    case Accept::kFloat: return is_floating(dtype);
    case Accept::kInteger: return is_integer(dtype);
    case Accept::kBool: return dtype == DType::kBool;
  }
  return false;
}

std::string_view accept_name(Accept accept) {
  switch (accept) {
    case Accept::kAny: return "a tensor type";
    case Accept::kNumeric: return "a number type";
    case Accept::kSigned: return "a signed number type";
    case Accept::kFloat: return "a floating-point type";
    case Accept::kInteger: return "an integer type";
    case Accept::kBool: return "bool";
  }
  return "";
}

Result<Shape> broadcast_inputs(const Node& node) {
  Shape shape = node.input(0)->shape();
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(shape, broadcast_shapes(shape, node.input(i)->shape()));
  }
  return shape;
}

template <Accept accept>
Result<Shape> checked_shape(const Node& node) {
  const DType dtype = node.input(0)->dtype();
  if (!accepts(accept, dtype)) {
    return invalid_argument("element type ", dtype_name(dtype), "; expected ", accept_name(accept));
  }
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  return broadcast_inputs(node);
}

template <Accept accept>
Result<std::vector<TensorType>> infer_same(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(Shape shape, checked_shape<accept>(node));
  return one_type(node.input(0)->dtype(), std::move(shape));
}

template <Accept accept>
Result<std::vector<TensorType>> infer_test(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(Shape shape, checked_shape<accept>(node));
  return one_type(DType::kBool, std::move(shape));
}

Result<std::vector<TensorType>> infer_where(const Node& node, int) {
  if (node.input(0)->dtype() != DType::kBool) {
    return invalid_argument("the condition has element type ", dtype_name(node.input(0)->dtype()),
                            "; expected bool");
  }
  if (node.input(1)->dtype() != node.input(2)->dtype()) {
    return invalid_argument("operands have element types ", dtype_name(node.input(1)->dtype()),
                            " and ", dtype_name(node.input(2)->dtype()), "; expected one type");
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape, broadcast_inputs(node));
  return one_type(node.input(1)->dtype(), std::move(shape));
}

Result<std::vector<TensorType>> infer_cast(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(const DType to, parse_dtype(node.attr_string("to")));
  if (!accepts(Accept::kAny, to) || !accepts(Accept::kAny, node.input(0)->dtype())) {
    return invalid_argument("there is no cast from ", dtype_name(node.input(0)->dtype()), " to ",
                            dtype_name(to));
  }
  return one_type(to, node.input(0)->shape());
}

Result<std::vector<TensorType>> infer_prelu(const Node& node, int) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, checked_shape<Accept::kNumeric>(node));
  if (shape.size() != node.input(0)->rank()) {
    return invalid_argument("the slope ", node.input(1)->type(), " has more dimensions than ",
                            node.input(0)->type());
  }
  return one_type(node.input(0)->dtype(), shape);
}

Result<std::vector<TensorType>> infer_bit_shift(const Node& node, int) {
  const std::string direction = node.attr_string("direction");
  if (direction != "LEFT" && direction != "RIGHT") {
    return invalid_argument("direction '", direction, "'; expected LEFT or RIGHT");
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape, checked_shape<Accept::kInteger>(node));
  return one_type(node.input(0)->dtype(), std::move(shape));
}

Result<std::vector<TensorType>> infer_gelu(const Node& node, int) {
  const std::string form = node.attr_string("approximate", "none");
  if (form != "none" && form != "tanh") {
    return invalid_argument("approximate '", form, "'; expected none or tanh");
  }
  return infer_same<Accept::kFloat>(node, 1);
}

// A fused region. The body has a scalar input for each operand, and computes scalars.
Result<std::vector<TensorType>> infer_region(const Node& node, int num_outputs) {
  const std::shared_ptr<const Graph> body = node.attr_graph("body");
  TUTTI_RETURN_IF_ERROR(check_body(node, num_outputs, /*is_of_scalars=*/true));
  for (const auto& inner : body->nodes()) {
    if (!inner->op().is_pointwise || inner->has_attribute("body")) {
      return invalid_argument("the body holds ", inner->describe(), ", which is not pointwise");
    }
  }
  for (const Value* output : body->outputs()) {
    if (output->rank() != 0) {
      return invalid_argument("the body's output is ", output->type(), "; expected a scalar");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, broadcast_inputs(node));
  std::vector<TensorType> types;
  for (const Value* output : body->outputs()) types.push_back({output->dtype(), shape});
  return types;
}

Dim region_flops(const Node& node) {
  const auto nodes = static_cast<std::int64_t>(node.attr_graph("body")->nodes().size());
  return Dim(nodes) * product(node.output()->shape());
}

using Infer = Result<std::vector<TensorType>> (*)(const Node&, int);

void add(OpRegistry* ops, std::string_view type, int arity, Infer infer,
         std::vector<AttributeSpec> attributes = {}, std::string_view domain = "") {
  OpDef def;
  def.type = type;
  def.domain = domain;
  def.min_inputs = arity;
  def.max_inputs = arity;
  def.attributes = std::move(attributes);
  def.infer = infer;
  def.symbolic = pointwise_symbolic;
  def.factors = broadcast_factors;
  def.is_pointwise = true;
  ops->add(std::move(def));
}

AttributeSpec number(std::string_view name, bool required = true) {
  return {std::string(name), AttributeKind::kFloat, required};
}

void add_arithmetic(OpRegistry* ops) {
  for (const char* type : {"Abs", "Sign", "Relu"}) add(ops, type, 1, infer_same<Accept::kNumeric>);
  add(ops, "Neg", 1, infer_same<Accept::kSigned>);
  for (const char* type : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"}) {
    add(ops, type, 2, infer_same<Accept::kNumeric>);
  }
  for (const char* type : {"FloorMod", "Fmod"}) {
    add(ops, type, 2, infer_same<Accept::kNumeric>, {}, "ai.tutti");
  }
  for (const char* type :
       {"Acos", "Acosh", "Asin",       "Asinh", "Atan",    "Atanh",    "Ceil",    "Cos",
        "Cosh", "Erf",   "Exp",        "Floor", "Log",     "Round",    "Sin",     "Sinh",
        "Sqrt", "Tan",   "Reciprocal", "Tanh",  "Sigmoid", "Softplus", "Softsign"}) {
    add(ops, type, 1, infer_same<Accept::kFloat>);
  }
}

void add_logic(OpRegistry* ops) {
  add(ops, "Equal", 2, infer_test<Accept::kAny>);
  for (const char* type : {"Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    add(ops, type, 2, infer_test<Accept::kNumeric>);
  }
  add(ops, "IsNaN", 1, infer_test<Accept::kFloat>);
  add(ops, "IsInf", 1, infer_test<Accept::kFloat>,
      {{"detect_negative", AttributeKind::kInt, false},
       {"detect_positive", AttributeKind::kInt, false}});
  add(ops, "Not", 1, infer_same<Accept::kBool>);
  for (const char* type : {"And", "Or", "Xor"}) add(ops, type, 2, infer_same<Accept::kBool>);
  add(ops, "BitwiseNot", 1, infer_same<Accept::kInteger>);
  for (const char* type : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    add(ops, type, 2, infer_same<Accept::kInteger>);
  }
  add(ops, "BitShift", 2, infer_bit_shift, {{"direction", AttributeKind::kString, true}});
  add(ops, "Where", 3, infer_where);
  add(ops, "Cast", 1, infer_cast,
      {{"to", AttributeKind::kString, true}, {"saturate", AttributeKind::kInt, false}}, "ai.tutti");
}

void add_activations(OpRegistry* ops) {
  add(ops, "Gelu", 1, infer_gelu, {{"approximate", AttributeKind::kString, false}});
  add(ops, "Silu", 1, infer_same<Accept::kFloat>, {}, "ai.tutti");
  for (const char* type : {"HardSwish", "Mish"}) add(ops, type, 1, infer_same<Accept::kFloat>);
  for (const char* type : {"Elu", "Celu", "ThresholdedRelu", "LeakyRelu"}) {
    add(ops, type, 1, infer_same<Accept::kFloat>, {number("alpha")});
  }
  add(ops, "HardSigmoid", 1, infer_same<Accept::kFloat>, {number("alpha"), number("beta")});
  add(ops, "Selu", 1, infer_same<Accept::kFloat>, {number("alpha"), number("gamma")});
  add(ops, "Clip", 1, infer_same<Accept::kNumeric>, {number("min", false), number("max", false)},
      "ai.tutti");
  add(ops, "PRelu", 2, infer_prelu);
}

}  // namespace

void register_pointwise_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  add_arithmetic(ops);
  add_logic(ops);
  add_activations(ops);

  OpDef region;
  region.type = "Pointwise";
  region.domain = "ai.tutti";
  region.max_inputs = kVariadic;
  region.num_outputs = kVariadic;
  region.attributes = {{"body", AttributeKind::kGraph, true}};
  region.infer = infer_region;
  region.factors = broadcast_factors;
  region.flops = region_flops;
  region.is_pointwise = true;
  ops->add(std::move(region));

  register_pointwise_lowerings(lowerings);
}

}  // namespace tutti
