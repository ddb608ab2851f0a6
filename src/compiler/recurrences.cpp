#include "compiler/recurrences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/sequences.h"
#include "compiler/sharding.h"

namespace tutti {
namespace {

bool only_moves(const Node& node) {
  return node.type() == "Reshape" || node.type() == "Transpose" || node.type() == "Cast";
}

bool is_linear(const Node& node) {
  return only_moves(node) || node.type() == "Add" || node.type() == "Sub" || node.type() == "Mul";
}

bool takes_one_row(const Node& node) {
  if (node.type() != "Slice" || node.attr_ints("axes").size() != 1) return false;
  const auto axis = static_cast<std::size_t>(node.attr_ints("axes")[0]);
  return node.output()->shape()[axis].is(1) && !node.input(0)->shape()[axis].is(1);
}

// Where a dimension of a node's result is in one of its operands; nullopt: in none, or mixed.
std::optional<TokenDim> before(const TokenDim& at) {
  const Node& node = *at.first->producer();
  const FactorMap map = factors_of(node);
  const auto output = static_cast<std::size_t>(at.first->producer_output());
  const auto& factors = map.outputs[output][static_cast<std::size_t>(at.second)];
  if (factors.size() != 1) return std::nullopt;
  const int dim = dimension_of_factor(map.inputs[0], factors[0]);
  if (dim < 0 || map.inputs[0][static_cast<std::size_t>(dim)].size() != 1) return std::nullopt;
  return TokenDim{node.input(0), dim};
}

class RecurrenceFinder {
 public:
  std::vector<RecurrenceRows> run(const Graph& graph) {
    for (const auto& node : graph.nodes()) visit(*node);
    return std::move(found_);
  }

 private:
  void visit(const Node& node) {
    if (takes_one_row(node)) {
      row_of_[node.output()] = node.input(0);
    } else if (only_moves(node) && row_of_.contains(node.input(0))) {
      row_of_[node.output()] = row_of_[node.input(0)];
    } else if (node.type() == "MatMul") {
      visit_product(node);
    } else if (is_linear(node)) {
      for (const Value* input : node.inputs()) {
        const auto states = states_.find(input);
        if (states == states_.end()) continue;
        states_[node.output()].insert(states->second.begin(), states->second.end());
      }
    }
  }

  // A product with a row makes a state, and one of a state of the same rows is a step.
  void visit_product(const Node& node) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto row = row_of_.find(node.input(i));
      if (row == row_of_.end()) continue;
      const Value* state = node.input(1 - i);
      const bool keeps_shape = state->shape() == node.output()->shape();
      if (!keeps_shape || row_of_.contains(state)) continue;
      const auto known = states_.find(state);
      if (known != states_.end() && known->second.contains(row->second)) add(node, i, row->second);
      states_[node.output()] = {row->second};
      return;
    }
  }

  // By dimensions that both operands and the result of a step have.
  void add(const Node& product, std::size_t operand, const Value* rows) {
    if (!seen_.insert(rows).second) return;
    const FactorMap map = factors_of(product);
    std::optional<RecurrenceRows> best;
    for (std::size_t d = 0; d < map.inputs[operand].size(); ++d) {
      const std::vector<int>& factors = map.inputs[operand][d];
      if (factors.size() != 1 || dimension_of_factor(map.inputs[1 - operand], factors[0]) < 0 ||
          dimension_of_factor(map.outputs[0], factors[0]) < 0) {
        continue;
      }
      std::optional<TokenDim> at = TokenDim{product.input(operand), static_cast<int>(d)};
      while (at && at->first != rows) at = before(*at);
      if (!at || !tokens_of(*at).is_constant()) continue;
      const bool is_larger =
          !best || tokens_of(*at).constant() >
                       best->rows->shape()[static_cast<std::size_t>(best->heads)].constant();
      if (is_larger) best = RecurrenceRows{rows, at->second};
    }
    if (best) found_.push_back(*best);
  }

  std::map<const Value*, const Value*> row_of_;            // and of what
  std::map<const Value*, std::set<const Value*>> states_;  // made of rows of these
  std::set<const Value*> seen_;
  std::vector<RecurrenceRows> found_;
};

}  // namespace

std::vector<RecurrenceRows> recurrence_rows(const Graph& graph) {
  return RecurrenceFinder().run(graph);
}

}  // namespace tutti
