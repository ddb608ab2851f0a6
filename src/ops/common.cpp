#include "ops/common.h"

#include <algorithm>

namespace tutti {

std::vector<TensorType> one_type(DType dtype, Shape shape) {
  return {TensorType{dtype, std::move(shape)}};
}

std::vector<TensorType> same_type_as(const Value& value) { return {value.type()}; }

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i + a.size() < rank ? Dim(1) : a[i + a.size() - rank];
    const Dim y = i + b.size() < rank ? Dim(1) : b[i + b.size() - rank];
    if (x == y || y.is(1)) {
      out[i] = x;
    } else if (x.is(1)) {
      out[i] = y;
    } else if (x.is_constant() != y.is_constant()) {
      out[i] = x.is_constant() ? x : y;
    } else if (x.is_constant()) {
      return invalid_argument("shapes ", a, " and ", b, " do not broadcast: ", x, " against ", y);
    } else {
      return invalid_argument("shapes ", a, " and ", b, " broadcast only if ", x, " equals ", y,
                              ", which cannot be shown; give these sizes numbers or one name");
    }
  }
  return out;
}

Shape without_axes(const Shape& shape, const Axes& axes) {
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!contains(axes, static_cast<std::int64_t>(i))) out.push_back(shape[i]);
  }
  return out;
}

bool contains(const Axes& axes, std::int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Status check_axis(std::int64_t axis, std::size_t rank) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    return invalid_argument("axis ", axis, " is not in [0, ", rank, ")");
  }
  return {};
}

Status check_axes(const Axes& axes, std::size_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_axis(axes[i], rank));
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i] == axes[j]) return invalid_argument("axis ", axes[i], " is listed twice");
    }
  }
  return {};
}

Status check_same_dtypes(const Node& node) {
  const Value* first = nullptr;
  for (const Value* input : node.inputs()) {
    if (input == nullptr) continue;
    if (first == nullptr) first = input;
    if (input->dtype() != first->dtype()) {
      return invalid_argument("operands have element types ", dtype_name(first->dtype()), " and ",
                              dtype_name(input->dtype()), "; expected one type");
    }
  }
  return {};
}

Status check_floating(const Value& value, std::string_view what) {
  if (is_floating(value.dtype())) return {};
  return invalid_argument(what, " has element type ", dtype_name(value.dtype()),
                          "; expected a floating-point type");
}

Status check_integers(const Value& value, std::string_view what) {
  if (value.dtype() == DType::kInt32 || value.dtype() == DType::kInt64) return {};
  return invalid_argument(what, " has element type ", dtype_name(value.dtype()),
                          "; expected i32 or i64");
}

bool surely_differ(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  return difference.is_constant() && difference.constant() != 0;
}

std::string factor_name(std::size_t dimension) { return str_cat("d", dimension); }

FactorMap empty_factors(const Node& node) {
  FactorMap map;
  for (const Value* input : node.inputs()) {
    map.inputs.emplace_back(input == nullptr ? 0 : input->rank());
  }
  for (const Value* output : node.outputs()) map.outputs.emplace_back(output->rank());
  return map;
}

DimFactors add_factors(FactorMap* map, const Shape& shape, const Axes& whole) {
  DimFactors row(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(1)) continue;
    const bool is_whole = contains(whole, static_cast<std::int64_t>(i));
    row[i] = {
        map->add(factor_name(i), shape[i], is_whole ? FactorRole::kWhole : FactorRole::kParallel)};
  }
  return row;
}

FactorMap broadcast_factors(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape& shape = node.output()->shape();
  const DimFactors row = add_factors(&map, shape);
  for (DimFactors& output : map.outputs) output = row;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* input = node.input(i);
    if (input == nullptr) continue;
    const std::size_t shift = shape.size() - input->rank();
    for (std::size_t d = 0; d < input->rank(); ++d) {
      const Dim& size = input->shape()[d];
      if (size.is(1) || row[d + shift].empty()) continue;
      map.inputs[i][d] = row[d + shift];
      if (size == shape[d + shift]) continue;
      map.factors[static_cast<std::size_t>(row[d + shift][0])].role = FactorRole::kWhole;
    }
  }
  return map;
}

FactorMap along_axes_factors(const Node& node, const Axes& whole) {
  FactorMap map = empty_factors(node);
  const Shape& shape = node.input(0)->shape();
  map.inputs[0] = add_factors(&map, shape, whole);
  for (std::size_t o = 0; o < node.outputs().size(); ++o) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      // A whole axis may change its size; a dimension's factor must have the dimension's size.
      if (node.output(o)->shape()[d] == shape[d]) {
        map.outputs[o][d] = map.inputs[0][d];
      } else if (!node.output(o)->shape()[d].is(1)) {
        map.outputs[o][d] = {
            map.add(str_cat("o", o, "_", d), node.output(o)->shape()[d], FactorRole::kWhole)};
      }
    }
  }
  return map;
}

Status require_inputs(const LoweringContext& context, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (context.input(i) == nullptr) {
      return invalid_argument("input ", i, " is missing; ", context.op_type, " takes at least ",
                              count);
    }
  }
  return {};
}

Status finish(LoweringContext& context, Value* result) {
  if (!context.outputs.empty()) context.outputs[0] = result;
  return context.b.status();
}

Result<std::int64_t> axis_attribute(const LoweringContext& context, std::string_view name,
                                    std::int64_t fallback, std::size_t rank) {
  const Result<int> axis = normalize_axis(context.attr_int(name, fallback), rank);
  TUTTI_RETURN_IF_ERROR(axis.status().with_context(str_cat("attribute '", name, "'")));
  return std::int64_t{*axis};
}

Result<Axes> normalized_axes(const Axes& axes, std::size_t rank) {
  Axes out;
  for (const std::int64_t axis : axes) {
    TUTTI_ASSIGN_OR_RETURN(const int normalized, normalize_axis(axis, rank));
    out.push_back(normalized);
  }
  TUTTI_RETURN_IF_ERROR(check_axes(out, rank));
  return out;
}

Result<Axes> axes_from(const LoweringContext& context, std::string_view name, std::size_t i,
                       std::size_t rank) {
  if (context.has(name)) return normalized_axes(context.attr_ints(name), rank);
  if (context.input(i) == nullptr) return Axes{};
  TUTTI_ASSIGN_OR_RETURN(const Axes axes, context.known_ints(i));
  return normalized_axes(axes, rank);
}

Status check_body(const Node& node, int num_outputs, bool is_of_scalars) {
  const std::shared_ptr<const Graph> body = node.attr_graph("body");
  if (body->inputs().size() != node.inputs().size()) {
    return invalid_argument("the body has ", body->inputs().size(), " inputs; expected ",
                            node.inputs().size());
  }
  if (body->outputs().size() != static_cast<std::size_t>(num_outputs)) {
    return invalid_argument("the body has ", body->outputs().size(), " outputs; expected ",
                            num_outputs);
  }
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    TensorType expected = node.input(i)->type();
    if (is_of_scalars) expected.shape.clear();
    if (body->inputs()[i]->type() != expected) {
      return invalid_argument("input ", i, " of the body is ", body->inputs()[i]->type(),
                              "; expected ", expected);
    }
  }
  return {};
}

Value* scalar_like(LoweringContext& context, const Value* value, double number) {
  return value == nullptr ? nullptr : context.b.scalar(value->dtype(), number);
}

Value* reshape_to(GraphBuilder& b, Value* value, const Shape& shape) {
  if (value == nullptr || value->shape() == shape) return value;
  return b.reshape(value, shape);
}

}  // namespace tutti
