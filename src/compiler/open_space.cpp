// What works across space, in parts that pieces of space can do. Norms and means become sums, which
// the ranks add up: statistics travel and activations do not. (The mean comes first and the
// variance from differences to it, so that nothing cancels.) Along the dimension that is split,
// Splits become Slices, joins become sums of padded operands, and a Pad of several dimensions pads
// this one last, in reach of the windows of the convolution that reads it.
#include <algorithm>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

using Axes = std::vector<std::int64_t>;

DType sum_type(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }

// 1 / count as a scalar.
Value* inverse_of(GraphBuilder& b, const Dim& count, DType dtype) {
  if (count.is_constant() && count.constant() > 0) {
    return b.scalar(dtype, 1.0 / static_cast<double>(count.constant()));
  }
  Value* size = b.reshape(b.sizes({count}), {});
  return b.op("Reciprocal", {b.cast(size, dtype)});
}

// The mean of `kind` of x over axes, from their sum.
Value* mean_of(GraphBuilder& b, Value* x, std::string kind, const Axes& axes, bool keeps_dims) {
  Dim count = 1;
  for (const std::int64_t axis : axes) count = count * x->shape()[static_cast<std::size_t>(axis)];
  Value* sum = b.op(
      "Reduce", {x},
      {{"kind", std::move(kind)}, {"axes", axes}, {"keepdims", std::int64_t{keeps_dims ? 1 : 0}}});
  return b.op("Mul", {sum, inverse_of(b, count, x->dtype())});
}

Value* open_group_norm(GraphBuilder& b, const Node& norm) {
  Value* x = norm.input(0);
  const Shape& shape = x->shape();
  const DType dtype = sum_type(x->dtype());
  const Dim groups(norm.attr_int("groups"));
  const std::optional<Dim> size = exact_div(shape[1], groups);
  if (!size) return nullptr;
  Shape grouped{shape[0], groups, *size};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  Axes axes;
  for (std::size_t d = 2; d < grouped.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  Value* wide = b.reshape(b.cast(x, dtype), grouped);
  Value* centred = b.op("Sub", {wide, mean_of(b, wide, "sum", axes, true)});
  Value* variance = mean_of(b, centred, "sum_square", axes, true);
  Value* shifted = b.op("Add", {variance, b.scalar(dtype, norm.attr_float("epsilon"))});
  Value* scale = b.op("Reciprocal", {b.op("Sqrt", {shifted})});
  Value* y = b.reshape(b.op("Mul", {centred, scale}), shape);
  Shape channels(shape.size() - 1, Dim(1));
  channels[0] = shape[1];
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (norm.input(i) == nullptr) continue;
    Value* parameter = b.reshape(b.cast(norm.input(i), dtype), channels);
    y = b.op(i == 1 ? "Mul" : "Add", {y, parameter});
  }
  return b.cast(y, x->dtype());
}

Value* open_mean(GraphBuilder& b, const Node& reduce) {
  Value* x = reduce.input(0);
  Value* mean = mean_of(b, b.cast(x, sum_type(x->dtype())), "sum", reduce.attr_ints("axes"),
                        reduce.attr_int("keepdims", 1) != 0);
  return b.cast(mean, x->dtype());
}

// [n, c, space..], one of the dimensions of space among the axes.
bool is_mean_over_space(const Node& node) {
  if (node.type() != "Reduce" || node.attr_string("kind") != "mean") return false;
  if (node.input(0)->rank() < 3 || !is_floating(node.input(0)->dtype())) return false;
  const Axes axes = node.attr_ints("axes");
  return std::any_of(axes.begin(), axes.end(), [](std::int64_t axis) { return axis >= 2; });
}

// Slices instead of a Split along the dimension.
std::vector<Value*> open_split(GraphBuilder& b, const Node& split) {
  const std::int64_t axis = split.attr_int("axis");
  std::vector<Value*> parts;
  Dim start = 0;
  for (const Dim& size : split.attr_dims("sizes")) {
    parts.push_back(b.slice(split.input(0), {axis}, {start}, {start + size}));
    start = start + size;
  }
  return parts;
}

Value* pad_along(GraphBuilder& b, Value* x, std::int64_t axis, const Dim& before,
                 const Dim& after) {
  return b.op("Pad", {x},
              {{"axes", Axes{axis}},
               {"before", Shape{before}},
               {"after", Shape{after}},
               {"mode", std::string("constant")}});
}

// 0 + x is x: each operand where it stands, zeros elsewhere.
Value* open_join(GraphBuilder& b, const Node& concat) {
  const std::int64_t axis = concat.attr_int("axis");
  const auto d = static_cast<std::size_t>(axis);
  Dim before = 0;
  Value* sum = nullptr;
  for (Value* part : concat.inputs()) {
    const Dim after = concat.output()->shape()[d] - before - part->shape()[d];
    Value* padded = pad_along(b, part, axis, before, after);
    sum = sum == nullptr ? padded : b.op("Add", {sum, padded});
    before = before + part->shape()[d];
  }
  return sum;
}

// The Pad's other dimensions, then this one; null: it pads but one.
Value* open_pad(GraphBuilder& b, const Node& pad, std::int64_t axis) {
  Axes axes = pad.attr_ints("axes");
  const auto at = std::find(axes.begin(), axes.end(), axis) - axes.begin();
  if (axes.size() < 2 || at == std::ssize(axes)) return nullptr;
  AttributeMap others = pad.attributes();
  AttributeMap last = pad.attributes();
  last["axes"] = Axes{axis};
  axes.erase(axes.begin() + at);
  others["axes"] = axes;
  for (const char* side : {"before", "after"}) {
    Shape sizes = pad.attr_dims(side);
    last[side] = Shape{sizes[static_cast<std::size_t>(at)]};
    sizes.erase(sizes.begin() + at);
    others[side] = sizes;
  }
  return b.op("Pad", {b.op("Pad", pad.inputs(), std::move(others)), pad.input(1)}, std::move(last));
}

std::vector<Value*> opened_along(GraphBuilder& b, const Node& node, const SpatialDimension& space) {
  if (node.inputs().empty() || node.output()->rank() != space.rank) return {};
  const auto axis = static_cast<std::int64_t>(space.dim);
  const bool is_along = node.attr_int("axis", -1) == axis;
  if (node.type() == "Split" && is_along) return open_split(b, node);
  if (node.type() == "Concat" && is_along && is_floating(node.output()->dtype())) {
    return {open_join(b, node)};
  }
  if (node.type() != "Pad") return {};
  Value* y = open_pad(b, node, axis);
  return y == nullptr ? std::vector<Value*>() : std::vector<Value*>{y};
}

// The dimensions that axes with the strategy `spatial` split.
std::vector<SpatialDimension> split_dimensions(const Graph& graph, const CompileOptions& options) {
  std::vector<SpatialDimension> dims;
  for (int axis = 0; axis < static_cast<int>(options.mesh.axes().size()); ++axis) {
    const auto strategy = strategy_of(options, axis);
    if (options.mesh.size(axis) == 1 || !strategy.ok() || *strategy != "spatial") continue;
    if (const auto dim = spatial_dimension(graph, options, axis)) dims.push_back(*dim);
  }
  return dims;
}

bool splits_space(const CompileOptions& options) {
  for (int axis = 0; axis < static_cast<int>(options.mesh.axes().size()); ++axis) {
    const auto strategy = strategy_of(options, axis);
    if (options.mesh.size(axis) > 1 && strategy.ok() && *strategy == "spatial") return true;
  }
  return false;
}

// Replaces each node by what `open` makes of it, if anything.
template <class F>
Status open_nodes(Graph& graph, const CompileOptions& options, F&& open) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    const std::vector<Value*> values = open(b, node);
    TUTTI_RETURN_IF_ERROR(b.status());
    for (std::size_t i = 0; i < values.size(); ++i) {
      replace_value(graph, node.output(i), values[i]);
    }
  }
  graph.remove_dead();
  return {};
}

Status open_norms(Graph& graph, const CompileOptions& options) {
  return open_nodes(graph, options, [](GraphBuilder& b, const Node& node) {
    std::vector<Value*> values;
    if (node.type() == "GroupNorm" && node.input(0)->rank() > 2) {
      if (Value* y = open_group_norm(b, node)) values.push_back(y);
    }
    if (is_mean_over_space(node)) values.push_back(open_mean(b, node));
    return values;
  });
}

Status open_joins(Graph& graph, const CompileOptions& options) {
  const std::vector<SpatialDimension> dims = split_dimensions(graph, options);
  return open_nodes(graph, options, [&dims](GraphBuilder& b, const Node& node) {
    for (const SpatialDimension& dim : dims) {
      std::vector<Value*> values = opened_along(b, node, dim);
      if (!values.empty()) return values;
    }
    return std::vector<Value*>();
  });
}

}  // namespace

Status open_space(Graph& graph, const CompileOptions& options) {
  if (!splits_space(options)) return {};
  TUTTI_RETURN_IF_ERROR(open_norms(graph, options));
  TUTTI_RETURN_IF_ERROR(simplify(graph, options));
  return open_joins(graph, options);
}

}  // namespace tutti
