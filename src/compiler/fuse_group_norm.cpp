// Exporters write a group norm as an instance norm of [n, groups, rest] between two reshapes, its
// scale and bias as pointwise nodes behind: one GroupNorm.
#include <algorithm>

#include "base/dispatch.h"
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// An absent scale is 1, an absent bias 0.
bool is_filled_with(const Value* value, float number) {
  if (value == nullptr) return true;
  if (!value->is_constant()) return false;
  bool is_filled = false;
  const Status read = dispatch_dtype(value->dtype(), [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    const T* data = value->constant().data_as<T>();
    is_filled = std::all_of(data, data + value->constant().element_count(),
                            [number](T element) { return static_cast<float>(element) == number; });
    return {};
  });
  return read.ok() && is_filled;
}

// reshape(GroupNorm(reshape(x))) of x's own shape: groups are the same runs of elements.
Value* unreshaped(GraphBuilder& b, const Node& reshape) {
  const Node* norm = producer_of(reshape.input(0), "GroupNorm");
  if (norm == nullptr) return nullptr;
  const Node* inner = producer_of(norm->input(0), "Reshape");
  if (inner == nullptr) return nullptr;
  Value* x = inner->input(0);
  const std::int64_t groups = norm->attr_int("groups");
  if (x->rank() < 2 || x->shape() != reshape.output()->shape()) return nullptr;
  if (x->shape()[0] != inner->output()->shape()[0]) return nullptr;
  if (!exact_div(x->shape()[1], Dim(groups))) return nullptr;
  if (!is_filled_with(norm->input(1), 1) || !is_filled_with(norm->input(2), 0)) return nullptr;
  return b.op("GroupNorm", {x}, norm->attributes());
}

// A constant of [c, 1, ..] or [1, c, 1, ..] as [c]; null when it is another shape.
Value* channel_vector(GraphBuilder& b, Value* value, const Value& x) {
  const std::size_t rank = value->rank();
  if (!value->is_constant() || value->dtype() != x.dtype() || rank > x.rank()) return nullptr;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t d = i + x.rank() - rank;
    if (d == 1 ? value->shape()[i] != x.shape()[1] : !value->shape()[i].is(1)) return nullptr;
  }
  return rank + 1 < x.rank() ? nullptr : b.reshape(value, {x.shape()[1]});
}

// norm(x) * scale and norm(x) + bias take the vector into the norm.
Value* with_parameter(GraphBuilder& b, const Graph& graph, const Node& node) {
  const bool is_scale = node.type() == "Mul";
  if (node.inputs().size() != 2 || (!is_scale && node.type() != "Add")) return nullptr;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const Node* norm = producer_of(node.input(side), "GroupNorm");
    if (norm == nullptr || !has_single_use(graph, norm->output())) continue;
    if (is_scale ? norm->inputs().size() > 1 : norm->input(2) != nullptr) continue;
    Value* vector = channel_vector(b, node.input(1 - side), *norm->input(0));
    if (vector == nullptr) continue;
    std::vector<Value*> inputs{norm->input(0), norm->input(1), norm->input(2)};
    inputs[is_scale ? 1 : 2] = vector;
    return b.op("GroupNorm", std::move(inputs), norm->attributes());
  }
  return nullptr;
}

}  // namespace

Status fuse_group_norm(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    Value* y = node.type() == "Reshape" ? unreshaped(b, node) : with_parameter(b, graph, node);
    TUTTI_RETURN_IF_ERROR(b.status());
    if (y != nullptr) replace_value(graph, node.output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
