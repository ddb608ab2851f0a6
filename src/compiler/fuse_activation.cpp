#include <cmath>
#include <numbers>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

Value* match_silu(const Node& node) {
  if (node.type() == "Mul") {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      Value* x = node.input(side);
      const Node* sigmoid = producer_of(node.input(1 - side), "Sigmoid");
      if (sigmoid != nullptr && sigmoid->input(0) == x) return x;
    }
  }
  if (node.type() == "Div") {  // x / (1 + exp(-x))
    const auto sum = with_scalar(node.input(1)->producer(), "Add");
    if (!sum || sum->scalar != 1) return nullptr;
    const Node* exp = producer_of(sum->other, "Exp");
    const Node* neg = exp == nullptr ? nullptr : producer_of(exp->input(0), "Neg");
    if (neg != nullptr && neg->input(0) == node.input(0)) return node.input(0);
  }
  return nullptr;
}

// value = scalar * x^power, following products down to x.
struct Power {
  double scalar = 1;
  int power = 0;
};
std::optional<Power> power_of(const Value* value, const Value* x) {
  if (value == x) return Power{1, 1};
  if (const auto scalar = scalar_of(value)) return Power{*scalar, 0};
  const Node* node = value->producer();
  if (node == nullptr) return std::nullopt;
  if (node->type() == "Mul") {
    const auto a = power_of(node->input(0), x);
    const auto b = a ? power_of(node->input(1), x) : std::nullopt;
    if (!b) return std::nullopt;
    return Power{a->scalar * b->scalar, a->power + b->power};
  }
  if (const auto divided = with_scalar(node, "Div"); divided && !divided->scalar_is_left) {
    const auto a = power_of(divided->other, x);
    if (!a) return std::nullopt;
    return Power{a->scalar / divided->scalar, a->power};
  }
  if (node->type() == "Pow") {
    const auto exponent = scalar_of(node->input(1));
    const auto a = exponent ? power_of(node->input(0), x) : std::nullopt;
    if (!a || *exponent != std::floor(*exponent) || *exponent < 1 || *exponent > 4) {
      return std::nullopt;
    }
    return Power{std::pow(a->scalar, *exponent), a->power * static_cast<int>(*exponent)};
  }
  return std::nullopt;
}

bool is_power(const Value* value, const Value* x, double scalar, int power) {
  const auto found = power_of(value, x);
  return found && found->power == power && nearly(found->scalar, scalar);
}

constexpr double kCubic = 0.044715;
const double kTanhScale = std::sqrt(2.0 / std::numbers::pi);

// x of x + 0.044715 x^3.
Value* match_cubic(const Value* value) {
  const Node* add = producer_of(value, "Add");
  if (add == nullptr) return nullptr;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (is_power(add->input(1 - side), add->input(side), kCubic, 3)) return add->input(side);
  }
  return nullptr;
}

// x of sqrt(2/pi) (x + 0.044715 x^3), or of sqrt(2/pi) x (1 + 0.044715 x^2).
Value* match_tanh_argument(const Value* value) {
  if (const auto product = with_scalar(value->producer(), "Mul")) {
    if (nearly(product->scalar, kTanhScale)) {
      if (Value* x = match_cubic(product->other)) return x;
    }
  }
  const Node* mul = producer_of(value, "Mul");
  if (mul == nullptr) return nullptr;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const auto sum = with_scalar(mul->input(1 - side)->producer(), "Add");
    if (!sum || sum->scalar != 1) continue;
    const auto scaled = with_scalar(mul->input(side)->producer(), "Mul");
    if (!scaled || !nearly(scaled->scalar, kTanhScale)) continue;
    if (is_power(sum->other, scaled->other, kCubic, 2)) return scaled->other;
  }
  return nullptr;
}

// Climbs from 1 + erf(..) through products with x and numbers until it has met 0.5 and x once each.
Value* climb_to_gelu(const Graph& graph, Value* one_plus, const Value* x) {
  Value* current = one_plus;
  Power met;
  while (has_single_use(graph, current)) {
    const Node* user = current->users()[0];
    if (user->type() != "Mul" && user->type() != "Div") return nullptr;
    const bool current_is_left = user->input(0) == current;
    const auto other = power_of(user->input(current_is_left ? 1 : 0), x);
    if (!other || (user->type() == "Div" && (!current_is_left || other->power != 0)))
      return nullptr;
    met.scalar = user->type() == "Div" ? met.scalar / other->scalar : met.scalar * other->scalar;
    met.power += other->power;
    current = user->output();
    if (met.power == 1 && nearly(met.scalar, 0.5)) return current;
    if (met.power > 1) return nullptr;
  }
  return nullptr;
}

struct GeluMatch {
  Value* x = nullptr;
  Value* root = nullptr;
  std::string approximate;
};

std::optional<GeluMatch> match_gelu(const Graph& graph, const Node& node) {
  const auto sum = with_scalar(&node, "Add");
  if (!sum || sum->scalar != 1) return std::nullopt;
  if (const Node* erf = producer_of(sum->other, "Erf")) {
    const Node* scaled = erf->input(0)->producer();
    auto product = with_scalar(scaled, "Mul");
    double factor = product ? product->scalar : 0;
    if (!product) {
      product = with_scalar(scaled, "Div");
      if (!product || product->scalar_is_left) return std::nullopt;
      factor = 1 / product->scalar;
    }
    if (!nearly(factor, 1 / std::numbers::sqrt2)) return std::nullopt;
    Value* root = climb_to_gelu(graph, node.output(), product->other);
    if (root != nullptr) return GeluMatch{product->other, root, "none"};
  } else if (const Node* tanh = producer_of(sum->other, "Tanh")) {
    Value* x = match_tanh_argument(tanh->input(0));
    Value* root = x == nullptr ? nullptr : climb_to_gelu(graph, node.output(), x);
    if (root != nullptr) return GeluMatch{x, root, "tanh"};
  }
  return std::nullopt;
}

}  // namespace

Status fuse_activation(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    if (node.inputs().size() != 2) continue;
    if (Value* x = match_silu(node)) {
      b.set_insertion_point(&node);
      b.set_name(node.name());
      Value* y = b.op("Silu", {x});
      TUTTI_RETURN_IF_ERROR(b.status());
      replace_value(graph, node.output(), y);
    } else if (const auto gelu = match_gelu(graph, node)) {
      b.set_insertion_point(gelu->root->producer());
      b.set_name(gelu->root->producer()->name());
      Value* y = b.op("Gelu", {gelu->x}, {{"approximate", gelu->approximate}});
      TUTTI_RETURN_IF_ERROR(b.status());
      replace_value(graph, gelu->root, y);
    }
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
