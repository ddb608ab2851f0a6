#include <algorithm>
#include <set>

#include "compiler/hoist.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// Dimensions of values that tokens are made of.
using TokenDims = std::map<const Value*, std::set<int>>;

void mark_all(const Value* value, TokenDims* marks) {
  for (std::size_t d = 0; d < value->rank(); ++d) (*marks)[value].insert(static_cast<int>(d));
}

bool is_row_number(const Node& node, std::size_t operand) {
  const std::string& type = node.type();
  return operand == 1 && (type.starts_with("Gather") || type.starts_with("Scatter"));
}

// Factors whose tokens those of `factor` are: itself, and what it is cut from or joined of.
std::vector<int> made_of(const FactorMap& map, int factor) {
  std::vector<int> factors = {factor};
  if (const FactorSum* sum = map.sum_of(factor)) {
    factors.insert(factors.end(), sum->parts.begin(), sum->parts.end());
  }
  if (const FactorSum* sum = map.sum_with(factor)) factors.push_back(sum->whole);
  return factors;
}

bool mark_holders(const Node& node, const FactorMap& map, int factor, TokenDims* marks) {
  bool found = false;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (node.input(i) == nullptr) continue;
    for (std::size_t d = 0; d < map.inputs[i].size(); ++d) {
      const auto& factors = map.inputs[i][d];
      if (std::find(factors.begin(), factors.end(), factor) == factors.end()) continue;
      (*marks)[node.input(i)].insert(static_cast<int>(d));
      found = true;
    }
  }
  return found;
}

// From a marked dimension of an output to the input dimensions that share a factor with it. Where
// the rule says nothing, tokens may come from any operand that does not only say where they go.
void mark_operands(const Node& node, TokenDims* marks) {
  const FactorMap map = factors_of(node);
  for (std::size_t o = 0; o < node.outputs().size(); ++o) {
    const auto marked = marks->find(node.output(o));
    if (marked == marks->end()) continue;
    for (const int dim : std::set<int>(marked->second)) {
      for (const int factor : map.outputs[o][static_cast<std::size_t>(dim)]) {
        bool found = false;
        for (const int part : made_of(map, factor)) found |= mark_holders(node, map, part, marks);
        for (std::size_t i = 0; !found && i < node.inputs().size(); ++i) {
          if (node.input(i) != nullptr && !is_row_number(node, i)) mark_all(node.input(i), marks);
        }
      }
    }
  }
}

bool is_number_per_batch_element(const Value& input) {
  Dim rest = 1;
  for (std::size_t d = 1; d < input.rank(); ++d) rest = rest * input.shape()[d];
  return rest.is(1);
}

// Token ids and places: whole numbers that only say which rows to read or write. What is denoised
// has none of those.
bool holds_row_numbers(const Value& value) {
  if (value.users().empty()) return false;
  return std::all_of(value.users().begin(), value.users().end(), [&](const Node* user) {
    const bool passes_on = user->type() == "Reshape" || user->type() == "Slice" ||
                           user->type() == "Expand" || user->type() == "Concat" ||
                           (user->type() == "Cast" && is_integer(user->output()->dtype()));
    if (passes_on) return holds_row_numbers(*user->output());
    for (std::size_t i = 0; i < user->inputs().size(); ++i) {
      if (user->input(i) == &value && !is_row_number(*user, i)) return false;
    }
    return true;
  });
}

}  // namespace

std::vector<std::string> invariant_inputs(const Graph& whole, const CompileOptions& options) {
  if (!options.invariant_inputs.empty()) return options.invariant_inputs;
  if (!options.detect_invariant_inputs) return {};
  TokenDims marks;
  for (const auto& node : whole.nodes()) {
    if (node->type() == "Attention") marks[node->input(0)].insert(token_dimension(*node));
  }
  for (auto it = whole.nodes().rbegin(); it != whole.nodes().rend(); ++it) {
    mark_operands(**it, &marks);
  }
  std::vector<std::string> names;
  bool has_tokens = false;
  for (const Value* input : whole.inputs()) {
    if (is_integer(input->dtype()) && holds_row_numbers(*input)) {
      names.push_back(input->name());
    } else if (marks.contains(input)) {
      has_tokens = true;
    } else if (!is_number_per_batch_element(*input)) {
      names.push_back(input->name());
    }
  }
  return has_tokens ? names : std::vector<std::string>();
}

}  // namespace tutti
