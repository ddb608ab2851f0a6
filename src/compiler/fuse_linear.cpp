#include <algorithm>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "graph/rank_constant.h"

namespace tutti {
namespace {

// A matrix that is the same in every call: a constant or a piece of one, or an input of the main
// graph.
bool is_fixed(const Value* value) {
  return value->is_input() || sliced_constant(*value) != nullptr;
}

std::string activation_of(const Node& node) {
  const std::string& type = node.type();
  if (type == "Relu") return "relu";
  if (type == "Silu") return "silu";
  if (type == "Sigmoid") return "sigmoid";
  if (type == "Tanh") return "tanh";
  if (type == "Gelu")
    return node.attr_string("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu";
  return "";
}

struct LinearMatch {
  Value* x = nullptr;
  Value* weight = nullptr;
  bool transpose_weight = false;
  Value* bias = nullptr;
  std::string activation;
  Value* residual = nullptr;
  Value* output = nullptr;  // of the last node that the match covers
};

// The bias of an Add to `output`: [n], or [1, .., n] with ones in front.
Value* match_bias(const Node& add, const Value* output) {
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    Value* bias = add.input(side);
    if (add.input(1 - side) != output || bias == output || !is_fixed(bias)) continue;
    if (bias->rank() == 0 || bias->rank() > output->rank()) continue;
    if (bias->shape().back() != output->shape().back()) continue;
    const bool is_row = std::all_of(bias->shape().begin(), bias->shape().end() - 1,
                                    [](const Dim& size) { return size.is(1); });
    if (is_row) return bias;
  }
  return nullptr;
}

// A pointwise node reads the activation anyway, so it costs nothing there: gates. An Add may become
// the product's residual.
bool feeds_a_region(const Node* user) {
  return user != nullptr && user->op().is_pointwise && user->type() != "Add";
}

std::optional<LinearMatch> match_linear(const Graph& graph, const Node& product) {
  if (product.type() != "MatMul" || product.input(1)->rank() != 2) return std::nullopt;
  LinearMatch match;
  match.x = product.input(0);
  match.weight = product.input(1);
  if (!is_floating(match.x->dtype())) return std::nullopt;
  if (const Node* transpose = producer_of(match.weight, "Transpose")) {
    match.weight = transpose->input(0);
    match.transpose_weight = true;
  }
  if (!is_fixed(match.weight)) return std::nullopt;
  match.output = product.output();
  const auto only_user = [&graph](const Value* value) -> const Node* {
    return has_single_use(graph, value) ? value->users()[0] : nullptr;
  };
  const Node* user = only_user(match.output);
  if (user != nullptr && user->type() == "Add") {
    match.bias = match_bias(*user, match.output);
    if (match.bias != nullptr) {
      match.output = user->output();
      user = only_user(match.output);
    }
  }
  if (user != nullptr && !activation_of(*user).empty() &&
      !feeds_a_region(only_user(user->output()))) {
    match.activation = activation_of(*user);
    match.output = user->output();
    user = only_user(match.output);
  }
  if (user != nullptr && user->type() == "Add") {
    Value* other = user->input(user->input(0) == match.output ? 1 : 0);
    if (other != match.output && other->shape() == match.output->shape() && other->rank() > 1) {
      match.residual = other;
      match.output = user->output();
    }
  }
  return match;
}

}  // namespace

Status fuse_linear(Graph& graph, const CompileOptions& options) {
  if (!options.fuse) return {};
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    const auto match = match_linear(graph, *owned);
    if (!match) continue;
    // Where the last covered node stands: bias and residual exist there.
    Node* last = match->output->producer();
    b.set_insertion_point(last);
    b.set_name(owned->name());
    Value* bias = match->bias;
    if (bias != nullptr && bias->rank() > 1) bias = b.reshape(bias, {bias->shape().back()});
    AttributeMap attributes;
    if (match->transpose_weight) attributes["transpose_w"] = std::int64_t{1};
    if (!match->activation.empty()) attributes["activation"] = match->activation;
    Value* y = b.op("Linear", {match->x, match->weight, bias, match->residual}, attributes);
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_value(graph, match->output, y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
