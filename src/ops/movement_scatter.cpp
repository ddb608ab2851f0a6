// ScatterElements and ScatterND. A scatter over a constant box becomes slices and Concat.
#include <algorithm>

#include "ops/movement.h"

namespace tutti {
namespace {

Status check_reduction(const Node& node) {
  const std::string reduction = node.attr_string("reduction", "none");
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (reduction == known) return {};
  }
  return invalid_argument("reduction '", reduction, "'; expected none, add, mul, max or min");
}

Status check_operands(const Node& node) {
  TUTTI_RETURN_IF_ERROR(check_reduction(node));
  TUTTI_RETURN_IF_ERROR(check_integers(*node.input(1), "indices"));
  if (node.input(2)->dtype() != node.input(0)->dtype()) {
    return invalid_argument("updates are ", node.input(2)->type(), "; expected element type ",
                            dtype_name(node.input(0)->dtype()));
  }
  return {};
}

// --- ScatterElements --------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_scatter_elements(const Node& node, int) {
  const Value& data = *node.input(0);
  const Shape& indices = node.input(1)->shape();
  const Shape& updates = node.input(2)->shape();
  const std::int64_t axis = node.attr_int("axis");
  TUTTI_RETURN_IF_ERROR(check_operands(node));
  TUTTI_RETURN_IF_ERROR(check_axis(axis, data.rank()));
  if (indices.size() != data.rank() || updates.size() != data.rank()) {
    return invalid_argument("indices ", node.input(1)->type(), " and updates ",
                            node.input(2)->type(), "; expected the rank of ", data.type());
  }
  for (std::size_t d = 0; d < data.rank(); ++d) {
    if (surely_differ(indices[d], updates[d])) {
      return invalid_argument("indices ", node.input(1)->type(), " and updates ",
                              node.input(2)->type(), " differ in shape");
    }
    const Dim room = data.shape()[d] - indices[d];
    if (static_cast<std::int64_t>(d) != axis && room.is_constant() && room.constant() < 0) {
      return invalid_argument("indices ", node.input(1)->type(), " reach past ", data.type(),
                              " in dimension ", d);
    }
  }
  return same_type_as(data);
}

FactorMap factors_of_scatter_elements(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const Shape& data = node.input(0)->shape();
  for (std::size_t d = 0; d < data.size(); ++d) {
    const bool parallel =
        d != axis && node.input(1)->shape()[d] == data[d] && node.input(2)->shape()[d] == data[d];
    if (!data[d].is(1)) {
      const int factor =
          map.add(factor_name(d), data[d], parallel ? FactorRole::kParallel : FactorRole::kWhole);
      map.inputs[0][d] = map.outputs[0][d] = {factor};
    }
    if (parallel) {
      map.inputs[1][d] = map.inputs[2][d] = map.inputs[0][d];
    } else if (!node.input(1)->shape()[d].is(1)) {
      const int factor = map.add(str_cat("u", d), node.input(1)->shape()[d], FactorRole::kWhole);
      map.inputs[1][d] = map.inputs[2][d] = {factor};
    }
  }
  return map;
}

Status lower_scatter_elements(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, c.input(0)->rank()));
  return finish(c, c.b.op("ScatterElements", {c.input(0), c.input(1), c.input(2)},
                          {{"axis", axis}, {"reduction", c.attr_string("reduction", "none")}}));
}

// --- ScatterND --------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_scatter_nd(const Node& node, int) {
  const Value& data = *node.input(0);
  const Value& indices = *node.input(1);
  const Value& updates = *node.input(2);
  TUTTI_RETURN_IF_ERROR(check_operands(node));
  if (data.rank() == 0 || indices.rank() == 0) {
    return invalid_argument("operands are ", data.type(), " and ", indices.type(),
                            "; expected at least one dimension each");
  }
  const Dim depth = indices.shape().back();
  if (!depth.is_constant() || depth.constant() < 1 ||
      depth.constant() > static_cast<std::int64_t>(data.rank())) {
    return invalid_argument("the last dimension of indices is ", depth, "; expected 1 to ",
                            data.rank());
  }
  Shape expected(indices.shape().begin(), indices.shape().end() - 1);
  expected.insert(expected.end(), data.shape().begin() + depth.constant(), data.shape().end());
  bool fits = updates.rank() == expected.size();
  for (std::size_t d = 0; fits && d < expected.size(); ++d) {
    fits = !surely_differ(expected[d], updates.shape()[d]);
  }
  if (!fits) return invalid_argument("updates are ", updates.type(), "; expected ", expected);
  return same_type_as(data);
}

FactorMap factors_of_scatter_nd(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape& data = node.input(0)->shape();
  const Shape& indices = node.input(1)->shape();
  const Shape& updates = node.input(2)->shape();
  const auto depth = static_cast<std::size_t>(indices.back().constant());
  Axes indexed;
  for (std::size_t d = 0; d < depth; ++d) indexed.push_back(static_cast<std::int64_t>(d));
  map.inputs[0] = map.outputs[0] = add_factors(&map, data, indexed);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (indices[d].is(1)) continue;
    map.inputs[1][d] = {map.add(str_cat("u", d), indices[d], FactorRole::kWhole)};
    if (d + 1 < indices.size()) map.inputs[2][d] = map.inputs[1][d];
  }
  for (std::size_t d = depth; d < data.size(); ++d) {
    const std::size_t u = indices.size() - 1 + d - depth;
    map.inputs[2][u] = map.inputs[0][d];
    if (updates[u] != data[d] && !map.inputs[0][d].empty()) {
      map.factors[static_cast<std::size_t>(map.inputs[0][d][0])].role = FactorRole::kWhole;
    }
  }
  return map;
}

// The box that constant indices enumerate in row-major order, if they do: indices of shape
// [n1, .., nk, k] with element [i1, .., ik] = starts + [i1, .., ik].
std::optional<Axes> box_starts(const Value& indices) {
  constexpr std::int64_t kMany = 1 << 24;
  if (!indices.is_constant() || indices.constant().element_count() > kMany) return std::nullopt;
  const Dims dims = indices.constant().dims();
  const auto depth = static_cast<std::size_t>(dims.back());
  if (dims.size() != depth + 1 || indices.constant().element_count() == 0) return std::nullopt;
  const std::vector<std::int64_t> numbers = indices.constant().to_ints();
  const Axes starts(numbers.begin(), numbers.begin() + dims.back());
  std::vector<std::int64_t> position(depth, 0);
  for (std::size_t i = 0; i < numbers.size(); i += depth) {
    for (std::size_t d = 0; d < depth; ++d) {
      if (numbers[i + d] != starts[d] + position[d]) return std::nullopt;
    }
    for (std::size_t d = depth; d-- > 0;) {
      if (++position[d] < dims[d]) break;
      position[d] = 0;
    }
  }
  return starts;
}

// `data` with the box of `sizes` at `starts` (over the leading axes from `axis` on) replaced.
Value* replace_box(LoweringContext& c, Value* data, Value* updates, const Axes& starts,
                   const Axes& sizes, std::size_t axis) {
  if (data == nullptr || axis == starts.size()) return updates;
  const Dim& whole = data->shape()[axis];
  const std::int64_t start = starts[axis];
  const std::int64_t end = start + sizes[axis];
  if (start == 0 && whole.is(end)) {
    return replace_box(c, data, updates, starts, sizes, axis + 1);
  }
  const auto a = static_cast<std::int64_t>(axis);
  std::vector<Value*> parts;
  if (start != 0) parts.push_back(c.b.slice(data, {a}, {0}, {start}));
  // Only a box that is partial in a later axis too needs the old middle.
  parts.push_back(
      replace_box(c, c.b.slice(data, {a}, {start}, {end}), updates, starts, sizes, axis + 1));
  if (!whole.is(end)) parts.push_back(c.b.slice(data, {a}, {end}, {whole}));
  return c.b.op("Concat", parts, {{"axis", a}});
}

Status lower_scatter_nd(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  Value* data = c.input(0);
  Value* indices = c.input(1);
  Value* updates = c.input(2);
  const std::string reduction = c.attr_string("reduction", "none");
  if (reduction == "none" && indices->rank() > 0 && data->rank() >= indices->rank() - 1) {
    const auto starts = box_starts(*indices);
    bool fits = starts.has_value();
    Axes sizes;
    for (std::size_t d = 0; fits && d < starts->size(); ++d) {
      sizes.push_back(indices->constant().dims()[d]);
      const Dim room = data->shape()[d] - Dim((*starts)[d] + sizes[d]);
      fits = (*starts)[d] >= 0 && room.is_constant() && room.constant() >= 0;
    }
    Shape expected = data->shape();
    for (std::size_t d = 0; fits && d < sizes.size(); ++d) expected[d] = sizes[d];
    if (fits && updates->shape() == expected && updates->dtype() == data->dtype()) {
      return finish(c, replace_box(c, data, updates, *starts, sizes, 0));
    }
  }
  return finish(c, c.b.op("ScatterND", {data, indices, updates}, {{"reduction", reduction}}));
}

// --- TensorScatter ----------------------------------------------------------------------------

// A cache update (opset 24): row i of `update` goes to row write_indices[batch] + i of the axis, or
// that modulo its size. As a ScatterElements whose indices are computed.
Status lower_tensor_scatter(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* cache = c.input(0);
  Value* update = c.input(1);
  const std::size_t rank = cache->rank();
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", -2, rank));
  const std::string mode = c.attr_string("mode", "linear");
  if (axis == 0 || update->rank() != rank || (mode != "linear" && mode != "circular")) {
    return invalid_argument("cache ", cache->type(), ", update ", update->type(), ", axis ", axis,
                            ", mode '", mode,
                            "'; expected equal ranks, an axis after the batch, "
                            "and linear or circular");
  }
  const auto at = static_cast<std::size_t>(axis);
  const auto along = [&](std::size_t d, const Dim& size) {
    Shape shape(rank, Dim(1));
    shape[d] = size;
    return shape;
  };
  const Dim& length = update->shape()[at];
  Value* rows = c.b.op("Iota", {c.b.scalar(DType::kInt64, 0), c.b.scalar(DType::kInt64, 1)},
                       {{"size", Shape{length}}});
  rows = reshape_to(c.b, rows, along(at, length));
  if (Value* start = c.input(2)) {
    start = reshape_to(c.b, c.b.cast(start, DType::kInt64), along(0, update->shape()[0]));
    rows = c.b.op("Add", {start, rows});
  }
  if (mode == "circular") {
    Value* size = c.b.reshape(c.b.sizes({cache->shape()[at]}), {});
    rows = c.b.op("FloorMod", {rows, size});
  }
  Value* indices = c.b.expand(rows, update->shape());
  return finish(c, c.b.op("ScatterElements", {cache, indices, update},
                          {{"axis", axis}, {"reduction", std::string("none")}}));
}

}  // namespace

void register_scatter_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef elements;
  elements.type = "ScatterElements";
  elements.min_inputs = elements.max_inputs = 3;
  elements.attributes = {{"axis", AttributeKind::kInt, true},
                         {"reduction", AttributeKind::kString, false}};
  elements.infer = infer_scatter_elements;
  elements.factors = factors_of_scatter_elements;
  ops->add(std::move(elements));

  OpDef nd;
  nd.type = "ScatterND";
  nd.min_inputs = nd.max_inputs = 3;
  nd.attributes = {{"reduction", AttributeKind::kString, false}};
  nd.infer = infer_scatter_nd;
  nd.factors = factors_of_scatter_nd;
  ops->add(std::move(nd));

  add_lowering(lowerings, "ScatterElements", lower_scatter_elements, {"axis", "reduction"});
  add_lowering(lowerings, "Scatter", lower_scatter_elements, {"axis"});  // the name before opset 11
  add_lowering(lowerings, "TensorScatter", lower_tensor_scatter, {"axis", "mode"});
  add_lowering(lowerings, "ScatterND", lower_scatter_nd, {"reduction"});
}

}  // namespace tutti
