// op(transpose(x)) -> transpose(op(x)) for what works on any order of dimensions. Head transposes
// between a projection and its attention (around q/k norms and rotary embedding) so reach the
// attention, which takes either order.
#include <algorithm>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

using Permutation = std::vector<std::int64_t>;

const Permutation kHeadTranspose = {0, 2, 1, 3};

// Only permutations that keep the last dimension in place: rows stay rows.
const Node* row_transpose(const Value* value) {
  const Node* transpose = producer_of(value, "Transpose");
  if (transpose == nullptr) return nullptr;
  const Permutation perm = permutation_of(*transpose);
  return perm.back() == static_cast<std::int64_t>(perm.size()) - 1 ? transpose : nullptr;
}

// `value` (of rank <= perm's) in the order of dimensions before the transpose, provided that takes
// no more than a reshape; null otherwise.
Value* untransposed_operand(GraphBuilder& b, Value* value, const Permutation& perm) {
  if (value->rank() == 0) return value;
  if (const Node* transpose = row_transpose(value)) {
    if (permutation_of(*transpose) == perm) return transpose->input(0);
  }
  Shape full(perm.size() - value->rank(), Dim(1));
  full.insert(full.end(), value->shape().begin(), value->shape().end());
  const Permutation inverse = inverse_permutation(perm);
  std::int64_t last = -1;
  for (const std::int64_t axis : inverse) {
    if (full[static_cast<std::size_t>(axis)].is(1)) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  Shape shape = permuted(full, inverse);
  // Leading 1s say nothing.
  while (shape.size() > 1 && shape.size() > value->rank() && shape[0].is(1))
    shape.erase(shape.begin());
  return b.reshape(value, std::move(shape));
}

std::int64_t mapped_axis(const Permutation& perm, std::int64_t axis) {
  return perm[static_cast<std::size_t>(axis)];
}

// The attributes of `node` for operands in the order before the transpose; nullopt when it cannot
// work in that order.
std::optional<AttributeMap> attributes_before(const Node& node, const Permutation& perm) {
  AttributeMap attributes = node.attributes();
  const std::string& type = node.type();
  if (node.op().is_pointwise) return attributes;
  if (type == "RMSNormalization" || type == "LayerNormalization") {
    for (auto d = node.attr_int("axis"); d < static_cast<std::int64_t>(perm.size()); ++d) {
      if (mapped_axis(perm, d) != d) return std::nullopt;
    }
    return attributes;
  }
  if (type == "Concat" || type == "Softmax" || type == "Split") {
    attributes["axis"] = mapped_axis(perm, node.attr_int("axis"));
    return attributes;
  }
  if (type == "Slice") {
    Permutation axes = node.attr_ints("axes");
    for (std::int64_t& axis : axes) axis = mapped_axis(perm, axis);
    attributes["axes"] = std::move(axes);
    return attributes;
  }
  return std::nullopt;
}

// How many of the operands are data (the rest are parameters of the last dimensions).
std::size_t data_operands(const Node& node) {
  const std::string& type = node.type();
  const bool all = node.op().is_pointwise || type == "Concat";
  return all ? node.inputs().size() : 1;
}

// `transposed` takes the place of `old`; `result`, which outlives it, takes the name.
void replace_transposed(Graph& graph, Value* old, Value* result, Value* transposed) {
  graph.replace_uses(old, transposed);
  const std::string name = old->name();
  graph.rename(old, "replaced");
  graph.rename(result, name);
}

Status sink_past(Graph& graph, GraphBuilder& b, Node& node, bool* changed) {
  const Node* transpose = nullptr;
  const std::size_t count = data_operands(node);
  for (std::size_t i = 0; i < count; ++i) {
    const Value* input = node.input(i);
    if (input == nullptr) return {};
    if (transpose == nullptr && input->rank() == node.output()->rank()) {
      transpose = row_transpose(input);
    }
  }
  if (transpose == nullptr || !has_single_use(graph, transpose->output())) {
    // A transpose with other users may still sink past all of them.
    if (transpose == nullptr) return {};
    for (const Node* user : transpose->output()->users()) {
      const Permutation perm = permutation_of(*transpose);
      const bool takes_either_order = user->type() == "Attention" && perm == kHeadTranspose;
      if (!takes_either_order && !attributes_before(*user, perm)) return {};
    }
    if (is_graph_output(graph, transpose->output())) return {};
  }
  const Permutation perm = permutation_of(*transpose);
  auto attributes = attributes_before(node, perm);
  if (!attributes) return {};
  b.set_insertion_point(&node);
  b.set_name(node.name());
  std::vector<Value*> inputs = node.inputs();
  for (std::size_t i = 0; i < count; ++i) {
    inputs[i] = untransposed_operand(b, inputs[i], perm);
    TUTTI_RETURN_IF_ERROR(b.status());
    if (inputs[i] == nullptr) return {};
  }
  const std::vector<Value*> results = b.ops(node.type(), std::move(inputs), std::move(*attributes),
                                            static_cast<int>(node.outputs().size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    Value* back = b.transpose(results[i], perm);
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_transposed(graph, node.output(i), results[i], back);
  }
  *changed = true;
  return {};
}

const Node* head_transpose(const Value* value) {
  const Node* transpose = producer_of(value, "Transpose");
  return transpose != nullptr && permutation_of(*transpose) == kHeadTranspose ? transpose : nullptr;
}

}  // namespace

Status sink_transposes(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  bool changed = false;
  // In execution order, so one walk carries a transpose as far as it goes.
  for (const auto& node : graph.nodes()) {
    TUTTI_RETURN_IF_ERROR(sink_past(graph, b, *node, &changed));
  }
  graph.remove_dead();
  return changed ? simplify(graph, options) : Status();
}

Status set_attention_layouts(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    if (node.type() != "Attention" || node.attr_string("layout") != "bhsd") continue;
    int saved = 0;
    for (std::size_t i = 0; i < 3; ++i) saved += head_transpose(node.input(i)) != nullptr ? 1 : -1;
    const auto& users = node.output()->users();
    const bool output_is_transposed =
        !users.empty() && std::all_of(users.begin(), users.end(), [](const Node* user) {
          return user->type() == "Transpose" && permutation_of(*user) == kHeadTranspose;
        });
    saved += output_is_transposed ? 1 : -1;
    if (saved <= 0) continue;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    std::vector<Value*> inputs = node.inputs();
    for (std::size_t i = 0; i < 3; ++i) inputs[i] = b.transpose(inputs[i], kHeadTranspose);
    AttributeMap attributes = node.attributes();
    attributes["layout"] = std::string("bshd");
    Value* attended = b.op("Attention", std::move(inputs), std::move(attributes));
    Value* y = b.transpose(attended, kHeadTranspose);
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_transposed(graph, node.output(), attended, y);
  }
  return simplify(graph, options);
}

}  // namespace tutti
