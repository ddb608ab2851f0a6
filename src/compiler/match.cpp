#include "compiler/match.h"

#include <algorithm>
#include <cmath>

namespace tutti {

Node* producer_of(const Value* value, std::string_view type) {
  if (value == nullptr || value->producer() == nullptr) return nullptr;
  return value->producer()->type() == type ? value->producer() : nullptr;
}

bool is_graph_output(const Graph& graph, const Value* value) {
  return std::find(graph.outputs().begin(), graph.outputs().end(), value) != graph.outputs().end();
}

bool has_single_use(const Graph& graph, const Value* value) {
  return value->users().size() == 1 && !is_graph_output(graph, value);
}

std::optional<double> scalar_of(const Value* value) {
  if (value == nullptr || !value->is_constant() || value->constant().element_count() != 1) {
    return std::nullopt;
  }
  return value->constant().to_doubles()[0];
}

std::optional<ScalarOperand> with_scalar(const Node* node, std::string_view type) {
  if (node == nullptr || node->type() != type || node->inputs().size() != 2) return std::nullopt;
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    Value* other = node->input(1 - side);
    const auto scalar = scalar_of(node->input(side));
    // The scalar must not add dimensions to the other operand.
    if (scalar && other->shape() == node->output()->shape()) {
      return ScalarOperand{other, *scalar, side == 0};
    }
  }
  return std::nullopt;
}

bool is_never_negative(const Dim& dim) {
  if (dim.is_constant()) return dim.constant() >= 0;
  return dim.to_string().find('-') == std::string::npos;
}

bool nearly(double a, double b) {
  return std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b));
}

std::vector<std::int64_t> permutation_of(const Node& transpose) {
  return transpose.attr_ints("perm");
}

std::vector<std::int64_t> inverse_permutation(const std::vector<std::int64_t>& perm) {
  std::vector<std::int64_t> inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return inverse;
}

Shape permuted(const Shape& shape, const std::vector<std::int64_t>& perm) {
  Shape out;
  out.reserve(perm.size());
  for (const std::int64_t axis : perm) out.push_back(shape[static_cast<std::size_t>(axis)]);
  return out;
}

void replace_value(Graph& graph, Value* old, Value* replacement) {
  if (old == replacement) return;
  const std::string name = old->name();
  graph.replace_uses(old, replacement);
  const bool is_anonymous = !replacement->is_input() && !replacement->is_constant();
  if (is_anonymous) {
    graph.rename(old, "replaced");
    graph.rename(replacement, name);
  }
}

}  // namespace tutti
