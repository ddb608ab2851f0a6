// Operators that order, number or accumulate along one axis: CumSum, TopK, ArgMax, ArgMin, Trilu,
// ReverseSequence.
#include <algorithm>

#include "ops/movement.h"

namespace tutti {
namespace {

Status check_numbers(const Value& value) {
  if (is_floating(value.dtype()) || is_integer(value.dtype())) return {};
  return invalid_argument("element type ", dtype_name(value.dtype()), "; expected a number type");
}

FactorMap factors_along_axis(const Node& node) {
  return along_axes_factors(node, {node.attr_int("axis")});
}

// --- CumSum -----------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_cum_sum(const Node& node, int) {
  TUTTI_RETURN_IF_ERROR(check_numbers(*node.input(0)));
  TUTTI_RETURN_IF_ERROR(check_axis(node.attr_int("axis"), node.input(0)->rank()));
  return same_type_as(*node.input(0));
}

std::optional<std::vector<Dim>> running_sums(const Node& node) {
  const auto& elements = node.input(0)->symbolic();
  if (!elements || node.input(0)->rank() != 1 || node.attr_int("reverse") != 0) return std::nullopt;
  const bool exclusive = node.attr_int("exclusive") != 0;
  std::vector<Dim> out;
  Dim sum;
  for (const Dim& element : *elements) {
    out.push_back(exclusive ? sum : sum + element);
    sum = sum + element;
  }
  return out;
}

Status lower_cum_sum(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const Axes given, c.known_ints(1));
  TUTTI_ASSIGN_OR_RETURN(const Axes axes, normalized_axes(given, c.input(0)->rank()));
  if (axes.size() != 1) return invalid_argument("axis ", given, "; expected one number");
  return finish(c, c.b.op("CumSum", {c.input(0)},
                          {{"axis", axes[0]},
                           {"exclusive", c.attr_int("exclusive", 0)},
                           {"reverse", c.attr_int("reverse", 0)}}));
}

// --- TopK -------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_top_k(const Node& node, int) {
  const Value& x = *node.input(0);
  const std::int64_t axis = node.attr_int("axis");
  const Shape k = node.attr_dims("k");
  TUTTI_RETURN_IF_ERROR(check_numbers(x));
  TUTTI_RETURN_IF_ERROR(check_axis(axis, x.rank()));
  if (k.size() != 1) return invalid_argument("k ", k, "; expected one number");
  const Dim room = x.shape()[static_cast<std::size_t>(axis)] - k[0];
  if ((room.is_constant() && room.constant() < 0) || (k[0].is_constant() && k[0].constant() < 0)) {
    return invalid_argument("k ", k[0], " is not in [0, ",
                            x.shape()[static_cast<std::size_t>(axis)], "]");
  }
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = k[0];
  return std::vector<TensorType>{{x.dtype(), shape}, {DType::kInt64, shape}};
}

Status lower_top_k(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis,
                         axis_attribute(c, "axis", -1, c.input(0)->rank()));
  TUTTI_ASSIGN_OR_RETURN(const Shape k, c.known_sizes(1));
  const std::vector<Value*> both = c.b.ops("TopK", {c.input(0)},
                                           {{"axis", axis},
                                            {"k", k},
                                            {"largest", c.attr_int("largest", 1)},
                                            {"sorted", c.attr_int("sorted", 1)}},
                                           2);
  for (std::size_t i = 0; i < c.outputs.size() && i < 2; ++i) c.outputs[i] = both[i];
  return c.b.status();
}

// --- ArgMax, ArgMin ---------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_arg(const Node& node, int) {
  const Value& x = *node.input(0);
  const std::int64_t axis = node.attr_int("axis");
  TUTTI_RETURN_IF_ERROR(check_numbers(x));
  TUTTI_RETURN_IF_ERROR(check_axis(axis, x.rank()));
  if (x.shape()[static_cast<std::size_t>(axis)].is(0)) {
    return invalid_argument("axis ", axis, " of ", x.type(),
                            " is empty: there is no index to name");
  }
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = 1;
  if (node.attr_int("keepdims", 1) == 0) shape = without_axes(shape, {axis});
  return one_type(DType::kInt64, std::move(shape));
}

FactorMap factors_of_arg(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const bool keeps = node.attr_int("keepdims", 1) != 0;
  map.inputs[0] = add_factors(&map, node.input(0)->shape(), {static_cast<std::int64_t>(axis)});
  std::size_t to = 0;
  for (std::size_t d = 0; d < map.inputs[0].size(); ++d) {
    if (d != axis) {
      map.outputs[0][to++] = map.inputs[0][d];
    } else if (keeps) {
      ++to;
    }
  }
  return map;
}

Status lower_arg(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, c.input(0)->rank()));
  return finish(c, c.b.op(c.op_type, {c.input(0)},
                          {{"axis", axis},
                           {"keepdims", c.attr_int("keepdims", 1)},
                           {"select_last_index", c.attr_int("select_last_index", 0)}}));
}

// --- Trilu ------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_trilu(const Node& node, int) {
  if (node.input(0)->rank() < 2) {
    return invalid_argument("the input is ", node.input(0)->type(), "; expected matrices");
  }
  return same_type_as(*node.input(0));
}

FactorMap factors_of_trilu(const Node& node) {
  const auto rank = static_cast<std::int64_t>(node.input(0)->rank());
  return along_axes_factors(node, {rank - 2, rank - 1});
}

Status lower_trilu(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  std::int64_t k = 0;
  if (c.input(1) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(const Axes given, c.known_ints(1));
    if (given.size() != 1) return invalid_argument("k has ", given.size(), " elements; expected 1");
    k = given[0];
  }
  return finish(c, c.b.op("Trilu", {c.input(0)}, {{"upper", c.attr_int("upper", 1)}, {"k", k}}));
}

// --- ReverseSequence --------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_reverse_sequence(const Node& node, int) {
  const Value& x = *node.input(0);
  const Value& lengths = *node.input(1);
  const std::int64_t batch = node.attr_int("batch_axis");
  const std::int64_t time = node.attr_int("time_axis");
  TUTTI_RETURN_IF_ERROR(check_axes({batch, time}, x.rank()));
  if (batch > 1 || time > 1) {
    return invalid_argument("batch_axis ", batch, " and time_axis ", time, "; expected 0 and 1");
  }
  if (lengths.dtype() != DType::kInt64 || lengths.rank() != 1 ||
      surely_differ(lengths.shape()[0], x.shape()[static_cast<std::size_t>(batch)])) {
    return invalid_argument("the lengths are ", lengths.type(), "; expected i64[",
                            x.shape()[static_cast<std::size_t>(batch)], "]");
  }
  return same_type_as(x);
}

FactorMap factors_of_reverse_sequence(const Node& node) {
  FactorMap map = along_axes_factors(node, {node.attr_int("time_axis")});
  map.inputs[1][0] = map.inputs[0][static_cast<std::size_t>(node.attr_int("batch_axis"))];
  return map;
}

Status lower_reverse_sequence(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  return finish(c, c.b.op("ReverseSequence", {c.input(0), c.input(1)},
                          {{"batch_axis", c.attr_int("batch_axis", 1)},
                           {"time_axis", c.attr_int("time_axis", 0)}}));
}

OpDef define(std::string_view type, std::vector<AttributeSpec> attributes) {
  OpDef def;
  def.type = type;
  def.domain = "ai.tutti";
  def.attributes = std::move(attributes);
  return def;
}

}  // namespace

void register_scan_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef cum_sum = define("CumSum", {{"axis", AttributeKind::kInt, true},
                                    {"exclusive", AttributeKind::kInt, false},
                                    {"reverse", AttributeKind::kInt, false}});
  cum_sum.infer = infer_cum_sum;
  cum_sum.symbolic = running_sums;
  cum_sum.factors = factors_along_axis;
  ops->add(std::move(cum_sum));

  OpDef top_k = define("TopK", {{"axis", AttributeKind::kInt, true},
                                {"k", AttributeKind::kDims, true},
                                {"largest", AttributeKind::kInt, false},
                                {"sorted", AttributeKind::kInt, false}});
  top_k.num_outputs = 2;
  top_k.infer = infer_top_k;
  top_k.factors = factors_along_axis;
  ops->add(std::move(top_k));

  for (const char* type : {"ArgMax", "ArgMin"}) {
    OpDef arg = define(type, {{"axis", AttributeKind::kInt, true},
                              {"keepdims", AttributeKind::kInt, false},
                              {"select_last_index", AttributeKind::kInt, false}});
    arg.domain = "";
    arg.infer = infer_arg;
    arg.factors = factors_of_arg;
    ops->add(std::move(arg));
  }

  OpDef trilu =
      define("Trilu", {{"upper", AttributeKind::kInt, true}, {"k", AttributeKind::kInt, false}});
  trilu.infer = infer_trilu;
  trilu.factors = factors_of_trilu;
  ops->add(std::move(trilu));

  OpDef reverse = define("ReverseSequence", {{"batch_axis", AttributeKind::kInt, true},
                                             {"time_axis", AttributeKind::kInt, true}});
  reverse.domain = "";
  reverse.min_inputs = reverse.max_inputs = 2;
  reverse.infer = infer_reverse_sequence;
  reverse.factors = factors_of_reverse_sequence;
  ops->add(std::move(reverse));

  add_lowering(lowerings, "CumSum", lower_cum_sum, {"exclusive", "reverse"});
  add_lowering(lowerings, "TopK", lower_top_k, {"axis", "largest", "sorted"});
  for (const char* type : {"ArgMax", "ArgMin"}) {
    add_lowering(lowerings, type, lower_arg, {"axis", "keepdims", "select_last_index"});
  }
  add_lowering(lowerings, "Trilu", lower_trilu, {"upper"});
  add_lowering(lowerings, "ReverseSequence", lower_reverse_sequence, {"batch_axis", "time_axis"});
}

}  // namespace tutti
