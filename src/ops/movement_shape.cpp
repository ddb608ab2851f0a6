// Operators that change a tensor's shape as a whole: Reshape, Transpose, Expand, Tile.
#include <algorithm>

#include "ops/movement.h"

namespace tutti {
namespace {

// --- Reshape ----------------------------------------------------------------------------------

// Takes the sizes that both shapes have out of both.
void cancel_common(Shape* a, Shape* b) {
  std::erase_if(*a, [b](const Dim& dim) {
    const auto it = std::find(b->begin(), b->end(), dim);
    if (it == b->end()) return false;
    b->erase(it);
    return true;
  });
}

// Element counts that differ whatever the symbols stand for (other than 0).
bool counts_differ(Shape a, Shape b) {
  if (product(a) == product(b)) return false;  // zeros, too, which must not cancel
  cancel_common(&a, &b);
  const Dim x = product(a);
  const Dim y = product(b);
  const auto quotient = exact_div(x, y);
  const auto inverse = exact_div(y, x);
  return surely_differ(x, y) || (quotient && quotient->is_constant() && !quotient->is(1)) ||
         (inverse && inverse->is_constant() && !inverse->is(1));
}

Result<std::vector<TensorType>> infer_reshape(const Node& node, int) {
  const Shape shape = node.attr_dims("shape");
  const Value& x = *node.input(0);
  for (const Dim& dim : shape) {
    if (dim.is_constant() && dim.constant() < 0) {
      return invalid_argument("the shape ", shape, " has the negative size ", dim);
    }
  }
  if (counts_differ(x.shape(), shape)) {
    return invalid_argument(x.type(), " has ", product(x.shape()), " elements and ", shape, " has ",
                            product(shape));
  }
  return one_type(x.dtype(), shape);
}

std::optional<std::vector<Dim>> same_elements(const Node& node) {
  return node.input(0)->symbolic();
}

FactorMap factors_of_reshape(const Node& node) {
  return reshape_factors(node.input(0)->shape(), node.output()->shape());
}

// The size that -1 stands for. Sizes on both sides cancel first, so that sums divide too.
Result<Dim> missing_size(const Shape& from, const Shape& others) {
  Shape left = from;
  Shape right = others;
  cancel_common(&left, &right);
  const Dim whole = product(left);
  const Dim divisor = product(right);
  if (divisor.is(0)) return invalid_argument("-1 beside a size of 0 in the shape ", others);
  if (const auto exact = exact_div(whole, divisor)) return *exact;
  if (whole.is_constant() && divisor.is_constant()) {
    return invalid_argument("shape ", from, " does not fit -1 beside ", others, ": ", whole,
                            " elements do not divide by ", divisor);
  }
  return floor_div(whole, divisor);
}

Status lower_reshape(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(Shape shape, c.known_sizes(1));
  const bool copies_zero = c.attr_int("allowzero", 0) == 0;
  int wildcard = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(0) && copies_zero) {
      if (i >= x->rank()) {
        return invalid_argument("shape ", shape, " copies dimension ", i, ", but the input is ",
                                x->type());
      }
      shape[i] = x->shape()[i];
    } else if (shape[i].is(-1)) {
      if (wildcard >= 0) return invalid_argument("shape ", shape, " has -1 twice");
      wildcard = static_cast<int>(i);
    }
  }
  if (wildcard >= 0) {
    Shape others = shape;
    others.erase(others.begin() + wildcard);
    TUTTI_ASSIGN_OR_RETURN(shape[static_cast<std::size_t>(wildcard)],
                           missing_size(x->shape(), others));
  }
  return finish(c, c.b.reshape(x, shape));
}

Status lower_flatten(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& shape = c.input(0)->shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::int64_t axis = c.attr_int("axis", 1);
  if (axis < -rank || axis > rank) {
    return invalid_argument("axis ", axis, " is not in [-", rank, ", ", rank, "]");
  }
  if (axis < 0) axis += rank;
  const Shape head(shape.begin(), shape.begin() + axis);
  const Shape tail(shape.begin() + axis, shape.end());
  return finish(c, c.b.reshape(c.input(0), {product(head), product(tail)}));
}

Status lower_squeeze(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(Axes axes, axes_from(c, "axes", 1, x->rank()));
  const bool all_ones = !c.has("axes") && c.input(1) == nullptr;
  for (std::size_t i = 0; i < x->rank(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (all_ones) {
      if (x->shape()[i].is(1)) axes.push_back(axis);
    } else if (contains(axes, axis) && !x->shape()[i].is(1)) {
      return invalid_argument("dimension ", i, " of ", x->type(), " is squeezed; expected size 1");
    }
  }
  return finish(c, c.b.reshape(x, without_axes(x->shape(), axes)));
}

Status lower_unsqueeze(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, c.has("axes") ? 1 : 2));
  Value* x = c.input(0);
  Axes axes = c.attr_ints("axes");
  if (!c.has("axes")) {
    TUTTI_ASSIGN_OR_RETURN(axes, c.known_ints(1));
  }
  const std::size_t rank = x->rank() + axes.size();
  TUTTI_ASSIGN_OR_RETURN(axes, normalized_axes(axes, rank));
  Shape shape;
  std::size_t from = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    shape.push_back(contains(axes, static_cast<std::int64_t>(i)) ? Dim(1) : x->shape()[from++]);
  }
  return finish(c, c.b.reshape(x, shape));
}

// --- Transpose --------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_transpose(const Node& node, int) {
  const Value& x = *node.input(0);
  const Axes perm = node.attr_ints("perm");
  if (perm.size() != x.rank()) {
    return invalid_argument("perm ", perm, " does not fit ", x.type(), " of rank ", x.rank());
  }
  TUTTI_RETURN_IF_ERROR(check_axes(perm, x.rank()).with_context("perm"));
  Shape shape;
  for (const std::int64_t axis : perm) shape.push_back(x.shape()[static_cast<std::size_t>(axis)]);
  return one_type(x.dtype(), std::move(shape));
}

std::optional<std::vector<Dim>> transposed_elements(const Node& node) {
  if (node.output()->rank() > 1) return std::nullopt;
  return node.input(0)->symbolic();
}

FactorMap factors_of_transpose(const Node& node) {
  FactorMap map = empty_factors(node);
  map.inputs[0] = add_factors(&map, node.input(0)->shape());
  const Axes perm = node.attr_ints("perm");
  for (std::size_t i = 0; i < perm.size(); ++i) {
    map.outputs[0][i] = map.inputs[0][static_cast<std::size_t>(perm[i])];
  }
  return map;
}

Status lower_transpose(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  Axes perm = c.attr_ints("perm");
  if (!c.has("perm")) {
    for (std::size_t i = x->rank(); i > 0; --i) perm.push_back(static_cast<std::int64_t>(i) - 1);
  }
  bool identity = perm.size() == x->rank();
  for (std::size_t i = 0; i < perm.size(); ++i) {
    identity = identity && perm[i] == static_cast<std::int64_t>(i);
  }
  return finish(c, identity ? x : c.b.transpose(x, perm));
}

// --- Expand and Tile --------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_expand(const Node& node, int) {
  const Value& x = *node.input(0);
  const Shape shape = node.attr_dims("shape");
  TUTTI_ASSIGN_OR_RETURN(const Shape both, broadcast_shapes(x.shape(), shape));
  if (both != shape) {
    return invalid_argument(x.type(), " does not broadcast to ", shape);
  }
  return one_type(x.dtype(), shape);
}

// Small results whose elements repeat a single one.
std::optional<std::vector<Dim>> repeated_element(const Node& node) {
  constexpr std::int64_t kFew = 64;
  const auto& elements = node.input(0)->symbolic();
  const Dim count = product(node.output()->shape());
  if (!elements || !count.is_constant() || count.constant() > kFew) return std::nullopt;
  if (count.is(static_cast<std::int64_t>(elements->size()))) return elements;
  if (elements->size() != 1) return std::nullopt;
  return std::vector<Dim>(static_cast<std::size_t>(count.constant()), (*elements)[0]);
}

Status lower_expand(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Shape asked, c.known_sizes(1));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, broadcast_shapes(x->shape(), asked));
  return finish(c, c.b.expand(x, shape));
}

Result<std::vector<TensorType>> infer_tile(const Node& node, int) {
  const Value& x = *node.input(0);
  const Shape repeats = node.attr_dims("repeats");
  if (repeats.size() != x.rank()) {
    return invalid_argument("repeats ", repeats, " do not fit ", x.type());
  }
  Shape shape;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i].is_constant() && repeats[i].constant() < 0) {
      return invalid_argument("repeats ", repeats, " has the negative number ", repeats[i]);
    }
    shape.push_back(x.shape()[i] * repeats[i]);
  }
  return one_type(x.dtype(), std::move(shape));
}

// Each dimension of the result is (repeat, element), major to minor. Repeats are an attribute, the
// same on every rank, so they stay whole.
FactorMap factors_of_tile(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape repeats = node.attr_dims("repeats");
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (!repeats[i].is(1)) {
      map.outputs[0][i].push_back(map.add(str_cat("r", i), repeats[i], FactorRole::kWhole));
    }
    if (node.input(0)->shape()[i].is(1)) continue;
    const int factor = map.add(factor_name(i), node.input(0)->shape()[i]);
    map.inputs[0][i].push_back(factor);
    map.outputs[0][i].push_back(factor);
  }
  return map;
}

Status lower_tile(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const Shape repeats, c.known_sizes(1));
  bool identity = repeats.size() == c.input(0)->rank();
  for (const Dim& repeat : repeats) identity = identity && repeat.is(1);
  if (identity) return finish(c, c.input(0));
  return finish(c, c.b.op("Tile", {c.input(0)}, {{"repeats", repeats}}));
}

// --- Shapes as tensors ------------------------------------------------------------------------

Status lower_shape(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& shape = c.input(0)->shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = bound(c.attr_int("start", 0));
  const std::int64_t end = std::max(start, bound(c.attr_int("end", rank)));
  return finish(c, c.b.sizes(Shape(shape.begin() + start, shape.begin() + end)));
}

Status lower_size(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  return finish(c, c.b.reshape(c.b.sizes({product(c.input(0)->shape())}), {}));
}

}  // namespace

void register_shape_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef reshape;
  reshape.type = "Reshape";
  reshape.domain = "ai.tutti";
  reshape.attributes = {{"shape", AttributeKind::kDims, true}};
  reshape.infer = infer_reshape;
  reshape.symbolic = same_elements;
  reshape.factors = factors_of_reshape;
  reshape.flops = [](const Node&) { return Dim(0); };
  reshape.is_view = true;
  ops->add(std::move(reshape));

  OpDef transpose;
  transpose.type = "Transpose";
  transpose.attributes = {{"perm", AttributeKind::kInts, true}};
  transpose.infer = infer_transpose;
  transpose.symbolic = transposed_elements;
  transpose.factors = factors_of_transpose;
  ops->add(std::move(transpose));

  OpDef expand;
  expand.type = "Expand";
  expand.domain = "ai.tutti";
  expand.attributes = {{"shape", AttributeKind::kDims, true}};
  expand.infer = infer_expand;
  expand.symbolic = repeated_element;
  expand.factors = broadcast_factors;
  ops->add(std::move(expand));

  OpDef tile;
  tile.type = "Tile";
  tile.domain = "ai.tutti";
  tile.attributes = {{"repeats", AttributeKind::kDims, true}};
  tile.infer = infer_tile;
  tile.symbolic = repeated_element;
  tile.factors = factors_of_tile;
  ops->add(std::move(tile));

  add_lowering(lowerings, "Reshape", lower_reshape, {"allowzero"});
  add_lowering(lowerings, "Flatten", lower_flatten, {"axis"});
  add_lowering(lowerings, "Squeeze", lower_squeeze, {"axes"});
  add_lowering(lowerings, "Unsqueeze", lower_unsqueeze, {"axes"});
  add_lowering(lowerings, "Transpose", lower_transpose, {"perm"});
  add_lowering(lowerings, "Expand", lower_expand);
  add_lowering(lowerings, "Tile", lower_tile);
  add_lowering(lowerings, "Shape", lower_shape, {"start", "end"});
  add_lowering(lowerings, "Size", lower_size);
}

}  // namespace tutti
