// Tensors made from sizes and scalars: Sizes, Fill, Iota, and ONNX's operators on top of them.
#include <algorithm>
#include <cmath>

#include "ops/movement.h"

namespace tutti {
namespace {

constexpr std::int64_t kFewElements = 64;

// --- Sizes ------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_sizes(const Node& node, int) {
  const auto count = static_cast<std::int64_t>(node.attr_dims("values").size());
  return one_type(DType::kInt64, {count});
}

std::optional<std::vector<Dim>> sizes_elements(const Node& node) {
  return node.attr_dims("values");
}

// --- Fill -------------------------------------------------------------------------------------

Status check_scalar(const Value& value, std::string_view what) {
  if (value.rank() == 0) return {};
  return invalid_argument("the ", what, " is ", value.type(), "; expected a scalar");
}

Status check_sizes(const Shape& shape) {
  for (const Dim& dim : shape) {
    if (dim.is_constant() && dim.constant() < 0) {
      return invalid_argument("shape ", shape, " has the negative size ", dim);
    }
  }
  return {};
}

Result<std::vector<TensorType>> infer_fill(const Node& node, int) {
  TUTTI_RETURN_IF_ERROR(check_scalar(*node.input(0), "value"));
  const Shape shape = node.attr_dims("shape");
  TUTTI_RETURN_IF_ERROR(check_sizes(shape));
  return one_type(node.input(0)->dtype(), shape);
}

std::optional<std::vector<Dim>> filled_elements(const Node& node) {
  const auto& element = node.input(0)->symbolic();
  const Dim count = product(node.output()->shape());
  if (!element || !count.is_constant() || count.constant() > kFewElements) return std::nullopt;
  return std::vector<Dim>(static_cast<std::size_t>(count.constant()), (*element)[0]);
}

Status lower_constant_of_shape(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, c.known_sizes(0));
  Tensor element = Tensor::scalar(DType::kFloat32, 0);
  const auto it = c.attributes.find("value");
  if (it != c.attributes.end()) {
    const Tensor* value = std::get_if<Tensor>(&it->second);
    if (value == nullptr || value->element_count() != 1) {
      return invalid_argument("attribute 'value' is not a tensor of one element");
    }
    element = value->reshaped({});
  }
  return finish(c, c.b.op("Fill", {c.b.constant(element)}, {{"shape", shape}}));
}

// --- Iota -------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_iota(const Node& node, int) {
  TUTTI_RETURN_IF_ERROR(check_scalar(*node.input(0), "start"));
  TUTTI_RETURN_IF_ERROR(check_scalar(*node.input(1), "step"));
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  const DType dtype = node.input(0)->dtype();
  if (!is_floating(dtype) && !is_integer(dtype)) {
    return invalid_argument("element type ", dtype_name(dtype), "; expected a number type");
  }
  const Shape size = node.attr_dims("size");
  if (size.size() != 1) return invalid_argument("size ", size, "; expected one number");
  TUTTI_RETURN_IF_ERROR(check_sizes(size));
  return one_type(dtype, size);
}

std::optional<std::vector<Dim>> iota_elements(const Node& node) {
  const auto& start = node.input(0)->symbolic();
  const auto& step = node.input(1)->symbolic();
  const Dim count = node.attr_dims("size")[0];
  if (!start || !step || !count.is_constant() || count.constant() > kFewElements) {
    return std::nullopt;
  }
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < count.constant(); ++i) {
    out.push_back((*start)[0] + (*step)[0] * Dim(i));
  }
  return out;
}

// A piece would have to know where it starts.
FactorMap factors_of_iota(const Node& node) {
  FactorMap map = empty_factors(node);
  map.outputs[0] = add_factors(&map, node.output()->shape(), {0});
  return map;
}

// A scalar operand as a size, where that is exact.
Result<Dim> known_size(const LoweringContext& c, std::size_t i) {
  const Value* value = c.input(i);
  if (value->is_constant() && is_floating(value->dtype())) {
    TUTTI_ASSIGN_OR_RETURN(const double number, c.known_float(i, 0));
    if (std::floor(number) == number) return Dim(static_cast<std::int64_t>(number));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Dim> elements, c.known_sizes(i));
  if (elements.size() != 1) {
    return invalid_argument("input ", i, " is ", value->type(), "; expected a scalar");
  }
  return elements[0];
}

Result<Dim> range_size(const LoweringContext& c) {
  bool all_constant = true;
  for (std::size_t i = 0; i < 3; ++i) all_constant = all_constant && c.input(i)->is_constant();
  if (all_constant && is_floating(c.input(0)->dtype())) {
    TUTTI_ASSIGN_OR_RETURN(const double start, c.known_float(0, 0));
    TUTTI_ASSIGN_OR_RETURN(const double limit, c.known_float(1, 0));
    TUTTI_ASSIGN_OR_RETURN(const double delta, c.known_float(2, 0));
    const double count = std::ceil((limit - start) / delta);
    if (!(std::fabs(count) < 9e15)) {
      return invalid_argument("range from ", start, " to ", limit, " by ", delta,
                              " has no finite size");
    }
    return Dim(static_cast<std::int64_t>(std::max(count, 0.0)));
  }
  TUTTI_ASSIGN_OR_RETURN(const Dim start, known_size(c, 0));
  TUTTI_ASSIGN_OR_RETURN(const Dim limit, known_size(c, 1));
  TUTTI_ASSIGN_OR_RETURN(const Dim delta, known_size(c, 2));
  if (!delta.is_constant() || delta.is(0)) {
    return invalid_argument("range by ", delta, "; expected a number other than 0");
  }
  const Dim count = delta.constant() > 0 ? ceil_div(limit - start, delta)
                                         : ceil_div(start - limit, Dim(-delta.constant()));
  return count.is_constant() ? Dim(std::max<std::int64_t>(count.constant(), 0)) : count;
}

Status lower_range(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  TUTTI_ASSIGN_OR_RETURN(const Dim size, range_size(c));
  Value* start = reshape_to(c.b, c.input(0), {});
  Value* step = reshape_to(c.b, c.input(2), {});
  return finish(c, c.b.op("Iota", {start, step}, {{"size", Shape{size}}}));
}

// 0, 1, .. as i64, shaped to lie along one axis of `rank`.
Value* positions(LoweringContext& c, const Dim& size, std::int64_t first, std::size_t axis,
                 std::size_t rank) {
  Value* numbers = c.b.op(
      "Iota", {c.b.scalar(DType::kInt64, static_cast<double>(first)), c.b.scalar(DType::kInt64, 1)},
      {{"size", Shape{size}}});
  Shape shape(rank, Dim(1));
  shape[axis] = size;
  return reshape_to(c.b, numbers, shape);
}

Status lower_eye_like(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const Value* x = c.input(0);
  if (x->rank() != 2) return invalid_argument("the input is ", x->type(), "; expected a matrix");
  DType dtype = x->dtype();
  if (c.has("dtype")) {
    TUTTI_ASSIGN_OR_RETURN(dtype, dtype_from_onnx(static_cast<int>(c.attr_int("dtype", 0))));
  }
  Value* rows = positions(c, x->shape()[0], c.attr_int("k", 0), 0, 2);
  Value* columns = positions(c, x->shape()[1], 0, 1, 2);
  return finish(c, c.b.cast(c.b.op("Equal", {rows, columns}), dtype));
}

// Where(index == position, on, off), with negative indices counted from the end.
Status lower_one_hot(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  Value* indices = c.b.cast(c.input(0), DType::kInt64);
  Value* values = c.input(2);
  TUTTI_ASSIGN_OR_RETURN(const Dim depth, known_size(c, 1));
  if (indices == nullptr || values->rank() != 1 || !values->shape()[0].is(2)) {
    return invalid_argument("values are ", values->type(), "; expected two elements");
  }
  const std::size_t rank = indices->rank() + 1;
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", -1, rank));
  Shape shape = indices->shape();
  shape.insert(shape.begin() + axis, Dim(1));
  Value* from_end = c.b.op("Add", {indices, c.b.reshape(c.b.sizes({depth}), {})});
  Value* is_negative = c.b.op("Less", {indices, c.b.scalar(DType::kInt64, 0)});
  Value* index = c.b.op("Where", {is_negative, from_end, indices});
  Value* hit = c.b.op("Equal", {reshape_to(c.b, index, shape),
                                positions(c, depth, 0, static_cast<std::size_t>(axis), rank)});
  Value* off = c.b.reshape(c.b.slice(values, {0}, {0}, {1}), {});
  Value* on = c.b.reshape(c.b.slice(values, {0}, {1}, {2}), {});
  return finish(c, c.b.op("Where", {hit, on, off}));
}

}  // namespace

void register_generate_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef sizes;
  sizes.type = "Sizes";
  sizes.domain = "ai.tutti";
  sizes.min_inputs = sizes.max_inputs = 0;
  sizes.attributes = {{"values", AttributeKind::kDims, true}};
  sizes.infer = infer_sizes;
  sizes.symbolic = sizes_elements;
  ops->add(std::move(sizes));

  OpDef fill;
  fill.type = "Fill";
  fill.domain = "ai.tutti";
  fill.attributes = {{"shape", AttributeKind::kDims, true}};
  fill.infer = infer_fill;
  fill.symbolic = filled_elements;
  fill.factors = broadcast_factors;
  ops->add(std::move(fill));

  OpDef iota;
  iota.type = "Iota";
  iota.domain = "ai.tutti";
  iota.min_inputs = iota.max_inputs = 2;
  iota.attributes = {{"size", AttributeKind::kDims, true}};
  iota.infer = infer_iota;
  iota.symbolic = iota_elements;
  iota.factors = factors_of_iota;
  ops->add(std::move(iota));

  add_lowering(lowerings, "ConstantOfShape", lower_constant_of_shape, {"value"});
  add_lowering(lowerings, "Range", lower_range);
  add_lowering(lowerings, "EyeLike", lower_eye_like, {"dtype", "k"});
  add_lowering(lowerings, "OneHot", lower_one_hot, {"axis"});
}

}  // namespace tutti
