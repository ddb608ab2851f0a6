#include <algorithm>
#include <numeric>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/simplify_rules.h"

namespace tutti {
namespace {

bool is_identity(const std::vector<std::int64_t>& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool same_type(const Value* a, const Value* b) { return a->type() == b->type(); }

// Only dimensions of size 1 change place: the elements keep their order.
bool moves_no_element(const Shape& shape, const std::vector<std::int64_t>& perm) {
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (shape[static_cast<std::size_t>(axis)].is(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool is_whole_slice(const Node& node) {
  const Shape starts = node.attr_dims("starts");
  const auto steps = node.attr_ints("steps");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!starts[i].is(0) || steps[i] != 1) return false;
  }
  return same_type(node.input(0), node.output());
}

// x*1, x/1, x+0, x-0, x^1 where neither type nor shape changes. 0 is +0: x + 0 is x but for -0,
// which compares equal.
Value* neutral_operand(const Node& node) {
  const auto neutral = [&](std::string_view type, double number, bool left_too) -> Value* {
    const auto match = with_scalar(&node, type);
    if (!match || match->scalar != number || (match->scalar_is_left && !left_too)) return nullptr;
    return same_type(match->other, node.output()) ? match->other : nullptr;
  };
  if (Value* x = neutral("Mul", 1, true)) return x;
  if (Value* x = neutral("Add", 0, true)) return x;
  if (Value* x = neutral("Div", 1, false)) return x;
  if (Value* x = neutral("Sub", 0, false)) return x;
  return neutral("Pow", 1, false);
}

// The operand that equals the node's only output, or null.
Value* equal_operand(const Node& node) {
  if (node.outputs().size() != 1) return nullptr;
  Value* x = node.input(0);
  if (x == nullptr) return nullptr;
  const std::string& type = node.type();
  if (type == "Reshape" || type == "Expand" || type == "Cast") {
    return same_type(x, node.output()) ? x : nullptr;
  }
  if (type == "Transpose") return is_identity(permutation_of(node)) ? x : nullptr;
  if (type == "Slice") return is_whole_slice(node) ? x : nullptr;
  if (type == "Concat" || type == "Split") return node.inputs().size() == 1 ? x : nullptr;
  if (type == "Tile") return same_type(x, node.output()) ? x : nullptr;
  if (node.op().is_pointwise) return neutral_operand(node);
  return nullptr;
}

std::vector<std::size_t> dimensions_but_ones(const Shape& shape) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!shape[d].is(1)) dims.push_back(d);
  }
  return dims;
}

// Two transposes with nothing but dimensions of size 1 that come or go in between are one, as
// products of three and of four dimensions leave them.
Value* transpose_across_ones(GraphBuilder& b, const Node& node) {
  const Node* between = producer_of(node.input(0), "Reshape");
  const Node* first = between == nullptr ? nullptr : producer_of(between->input(0), "Transpose");
  if (first == nullptr) return nullptr;
  const Shape& before = between->input(0)->shape();
  const Shape& after = between->output()->shape();
  const auto kept_before = dimensions_but_ones(before);
  const auto kept_after = dimensions_but_ones(after);
  const bool only_ones =
      std::equal(kept_before.begin(), kept_before.end(), kept_after.begin(), kept_after.end(),
                 [&](std::size_t i, std::size_t j) { return before[i] == after[j]; });
  if (!only_ones) return nullptr;
  Value* x = first->input(0);
  const auto first_perm = permutation_of(*first);
  std::vector<std::int64_t> both;
  for (std::size_t d = 0; d < x->rank(); ++d) {
    if (x->shape()[d].is(1)) both.push_back(static_cast<std::int64_t>(d));
  }
  for (const std::int64_t axis : permutation_of(node)) {
    const auto at = std::find(kept_after.begin(), kept_after.end(), static_cast<std::size_t>(axis));
    if (at == kept_after.end()) continue;
    both.push_back(first_perm[kept_before[static_cast<std::size_t>(at - kept_after.begin())]]);
  }
  return b.reshape(moves_no_element(x->shape(), both) ? x : b.transpose(x, both),
                   node.output()->shape());
}

// A node that does the work of `node` and of its operand's producer.
Value* merged_movement(GraphBuilder& b, const Node& node) {
  Value* x = node.input(0);
  if (node.type() == "Reshape") {
    if (const Node* inner = producer_of(x, "Reshape")) {
      return b.reshape(inner->input(0), node.output()->shape());
    }
    // A transpose that moves no element is a reshape already.
    return nullptr;
  }
  if (node.type() == "Transpose") {
    const auto perm = permutation_of(node);
    if (const Node* inner = producer_of(x, "Transpose")) {
      const auto first = permutation_of(*inner);
      std::vector<std::int64_t> both;
      for (const std::int64_t axis : perm) both.push_back(first[static_cast<std::size_t>(axis)]);
      return is_identity(both) ? inner->input(0) : b.transpose(inner->input(0), both);
    }
    if (moves_no_element(x->shape(), perm)) return b.reshape(x, node.output()->shape());
    return transpose_across_ones(b, node);
  }
  if (node.type() == "Expand") {
    if (const Node* inner = producer_of(x, "Expand")) {
      return b.expand(inner->input(0), node.output()->shape());
    }
    return nullptr;
  }
  if (node.type() == "Cast") {
    // Through a wider float and back: no rounding on the way.
    const Node* inner = producer_of(x, "Cast");
    if (inner == nullptr || inner->input(0)->dtype() != node.output()->dtype()) return nullptr;
    const DType narrow = node.output()->dtype();
    const bool is_half = narrow == DType::kFloat16 || narrow == DType::kBFloat16;
    const bool is_wider = (x->dtype() == DType::kFloat32 && is_half) ||
                          (x->dtype() == DType::kFloat64 && (is_half || narrow == DType::kFloat32));
    return is_wider ? inner->input(0) : nullptr;
  }
  return nullptr;
}

// Powers that are cheaper as another operator.
Value* cheaper_power(GraphBuilder& b, const Node& node) {
  const auto power = with_scalar(&node, "Pow");
  if (!power || power->scalar_is_left || power->other->type() != node.output()->type()) {
    return nullptr;
  }
  Value* x = power->other;
  if (power->scalar == 2) return b.op("Mul", {x, x});
  if (!is_floating(x->dtype())) return nullptr;
  if (power->scalar == 0.5) return b.op("Sqrt", {x});
  if (power->scalar == -1) return b.op("Reciprocal", {x});
  return nullptr;
}

// [.., s, k] -> reshape [m, k] -> product with a matrix -> reshape [.., s, n] is one product of the
// unreshaped operand: exporters flatten tokens for Gemm, which hides them from layouts.
Value* unflattened_product(GraphBuilder& b, const Graph& graph, const Node& node) {
  if (node.type() != "Reshape") return nullptr;
  const Node* product = producer_of(node.input(0), "MatMul");
  const Node* bias = nullptr;
  if (product == nullptr) {
    bias = producer_of(node.input(0), "Add");
    if (bias == nullptr) return nullptr;
    product = producer_of(bias->input(0), "MatMul");
    if (product == nullptr || bias->input(1)->rank() > 1) return nullptr;
    if (!has_single_use(graph, product->output())) return nullptr;
  }
  if (!has_single_use(graph, node.input(0))) return nullptr;
  const Node* flatten = producer_of(product->input(0), "Reshape");
  Value* weight = product->input(1);
  if (flatten == nullptr || weight->rank() != 2 || product->input(0)->rank() != 2) return nullptr;
  const Shape& in = flatten->input(0)->shape();
  const Shape& out = node.output()->shape();
  if (in.size() != out.size() || in.size() < 3) return nullptr;
  if (!std::equal(in.begin(), in.end() - 1, out.begin())) return nullptr;
  if (in.back() != product->input(0)->shape()[1]) return nullptr;
  Value* y = b.op("MatMul", {flatten->input(0), weight});
  return bias == nullptr ? y : b.op("Add", {y, bias->input(1)});
}

// Exporters give every convolution a bias. A sum over channels in pieces must not have one.
Value* without_zero_bias(GraphBuilder& b, const Node& node) {
  if (node.type() != "Conv" && node.type() != "ConvTranspose") return nullptr;
  const Value* bias = node.inputs().size() > 2 ? node.input(2) : nullptr;
  if (bias == nullptr || !bias->is_constant()) return nullptr;
  const std::byte* first = bias->constant().data();
  const bool is_zero = std::all_of(first, first + bias->constant().byte_size(),
                                   [](std::byte one) { return one == std::byte{0}; });
  return is_zero ? b.op(node.type(), {node.input(0), node.input(1)}, node.attributes()) : nullptr;
}

// A node with one output that does the work of `node` better; null where no rule applies.
Value* better_node(GraphBuilder& b, const Graph& graph, const Node& node) {
  using Rule = Value* (*)(GraphBuilder&, const Graph&, const Node&);
  static constexpr Rule kRules[] = {
      [](GraphBuilder& b, const Graph&, const Node& node) { return merged_movement(b, node); },
      [](GraphBuilder& b, const Graph&, const Node& node) { return slices_for_indexes(b, node); },
      [](GraphBuilder& b, const Graph&, const Node& node) { return value_before_cut(b, node); },
      merged_concat,
      unflattened_product,
      [](GraphBuilder& b, const Graph&, const Node& node) { return cheaper_power(b, node); },
      [](GraphBuilder& b, const Graph&, const Node& node) { return without_zero_bias(b, node); },
  };
  for (const Rule rule : kRules) {
    Value* y = rule(b, graph, node);
    if (y != nullptr || !b.status().ok()) return y;
  }
  return nullptr;
}

bool replace_split(GraphBuilder& b, Graph& graph, const Node& split) {
  const std::vector<Value*> values = values_before_split(b, split);
  if (values.empty() || !b.status().ok()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) graph.replace_uses(split.output(i), values[i]);
  return true;
}

bool simplify_once(Graph& graph, const CompileOptions& options, Status* status) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  bool changed = false;
  // Nodes made on the way stand before the current one, so the walk never meets them.
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    if (Value* x = equal_operand(*node)) {
      graph.replace_uses(node->output(), x);
      changed = true;
      continue;
    }
    if (node->inputs().empty() || node->input(0) == nullptr) continue;
    b.set_insertion_point(node);
    b.set_name(node->name());
    if (node->type() == "Split") changed |= replace_split(b, graph, *node);
    Value* y = node->outputs().size() == 1 ? better_node(b, graph, *node) : nullptr;
    if (!b.status().ok()) {
      *status = b.take_status();
      return false;
    }
    if (y == nullptr) continue;
    const bool is_new = y->producer() != nullptr && y->users().empty();
    if (is_new) {
      replace_value(graph, node->output(), y);
    } else {
      graph.replace_uses(node->output(), y);
    }
    changed = true;
  }
  return changed;
}

}  // namespace

Status simplify(Graph& graph, const CompileOptions& options) {
  constexpr int kMaxRounds = 100;  // each round removes at least one node of a finite graph
  for (int round = 0; round < kMaxRounds; ++round) {
    Status status;
    bool changed = simplify_once(graph, options, &status);
    TUTTI_RETURN_IF_ERROR(status);
    changed |= graph.remove_dead() > 0;
    changed |= eliminate_common_subexpressions(graph) > 0;
    if (!changed) break;
  }
  return {};
}

}  // namespace tutti
