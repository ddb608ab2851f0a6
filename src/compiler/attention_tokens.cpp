#include "compiler/attention_tokens.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/cost.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "graph/op_def.h"

namespace tutti {
namespace {

void find_joined(const TokenDim& at, std::set<TokenDim>* seen, std::vector<TokenDim>* joined) {
  const Node* node = at.first->producer();
  if (node == nullptr || !is_light(*node) || !seen->insert(at).second) return;
  if (node->type() == "Concat" && node->attr_int("axis") == at.second) {
    for (const Value* input : node->inputs()) {
      const TokenDim operand{input, at.second};
      if (std::find(joined->begin(), joined->end(), operand) == joined->end()) {
        joined->push_back(operand);
      }
    }
    return;
  }
  const FactorMap map = factors_of(*node);
  const auto output = static_cast<std::size_t>(at.first->producer_output());
  const auto& factors = map.outputs[output][static_cast<std::size_t>(at.second)];
  if (factors.empty()) return;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    if (node->input(i) == nullptr) continue;
    // Rotary tables and masks are no sequences, however they were put together.
    const bool is_broadcast =
        node->op().is_pointwise && node->input(i)->shape() != at.first->shape();
    if (is_broadcast) continue;
    const int dim = dimension_of_factor(map.inputs[i], factors[0]);
    if (dim >= 0) find_joined({node->input(i), dim}, seen, joined);
  }
}

void find_cut(const TokenDim& at, std::set<TokenDim>* seen, std::vector<TokenDim>* cut) {
  if (!seen->insert(at).second) return;
  for (const Node* node : at.first->users()) {
    if (!is_light(*node)) continue;
    const bool is_slice = node->type() == "Slice";
    const auto axes = node->attr_ints("axes");
    if ((is_slice && std::find(axes.begin(), axes.end(), at.second) != axes.end()) ||
        (node->type() == "Split" && node->attr_int("axis") == at.second)) {
      for (const Value* output : node->outputs()) cut->emplace_back(output, at.second);
      continue;
    }
    const FactorMap map = factors_of(*node);
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      if (node->input(i) != at.first) continue;
      const auto& factors = map.inputs[i][static_cast<std::size_t>(at.second)];
      if (factors.empty()) continue;
      for (std::size_t o = 0; o < node->outputs().size(); ++o) {
        const int dim = dimension_of_factor(map.outputs[o], factors[0]);
        if (dim >= 0) find_cut({node->output(o), dim}, seen, cut);
      }
    }
  }
}

// More sequences than tokens in each of them.
bool has_more_batch(const Node& attention) {
  const Dim& batch = attention.input(0)->shape()[0];
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return batch.is_constant() && tokens.is_constant() && tokens.constant() < batch.constant();
}

class PairChain {
 public:
  explicit PairChain(const Node& attention) {
    constexpr std::size_t kMask = 3;
    const Value* mask = attention.inputs().size() > kMask ? attention.input(kMask) : nullptr;
    const int tokens = token_dimension(attention);
    if (mask == nullptr || mask->rank() < 2) return;
    const int rows = static_cast<int>(mask->rank()) - 2;
    const bool is_over_pairs =
        tokens_of({mask, rows}) == tokens_of({attention.input(0), tokens}) &&
        tokens_of({mask, rows + 1}) == tokens_of({attention.input(1), tokens});
    if (is_over_pairs) visit(mask, rows, rows + 1);
  }

  std::vector<TokenDim> rows() const { return has_work_ ? rows_ : std::vector<TokenDim>(); }

 private:
  void visit(const Value* value, int query, int key) {
    const Node* node = value->producer();
    if (node == nullptr || !seen_.insert(value).second) return;
    rows_.emplace_back(value, query);
    has_work_ |= is_real_work(*node);
    const FactorMap map = factors_of(*node);
    const DimFactors& output = map.outputs[static_cast<std::size_t>(value->producer_output())];
    const auto& row = output[static_cast<std::size_t>(query)];
    const auto& column = output[static_cast<std::size_t>(key)];
    if (row.size() != 1 || column.size() != 1) return;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      if (node->input(i) == nullptr) continue;
      const int from_row = dimension_of_factor(map.inputs[i], row[0]);
      const int from_column = dimension_of_factor(map.inputs[i], column[0]);
      if (from_row >= 0 && from_column >= 0) visit(node->input(i), from_row, from_column);
    }
  }

  std::vector<TokenDim> rows_;
  std::set<const Value*> seen_;
  bool has_work_ = false;
};

}  // namespace

std::vector<Node*> attentions_of(const Graph& graph) {
  std::vector<Node*> attentions;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "Attention") attentions.push_back(node.get());
  }
  return attentions;
}

bool is_light(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Transpose", "Reshape", "Slice", "Split", "Concat", "RMSNormalization", "LayerNormalization"};
  return node.op().is_pointwise || kTypes.contains(node.type());
}

std::vector<TokenDim> joined_before(const TokenDim& operand) {
  std::vector<TokenDim> joined;
  std::set<TokenDim> seen;
  find_joined(operand, &seen, &joined);
  return joined;
}

std::vector<TokenDim> cut_behind(const TokenDim& output) {
  std::vector<TokenDim> cut;
  std::set<TokenDim> seen;
  find_cut(output, &seen, &cut);
  return cut;
}

std::int64_t longest_sequence(const Graph& graph) {
  std::int64_t longest = 0;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention") continue;
    const Dim& tokens = node->input(0)->shape()[static_cast<std::size_t>(token_dimension(*node))];
    if (!tokens.is_constant()) return 0;
    longest = std::max(longest, tokens.constant());
  }
  return longest;
}

bool is_over_batch(const Node& attention, std::int64_t longest) {
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return tokens.is_constant() && tokens.constant() < longest && has_more_batch(attention);
}

bool is_in_groups(const Node& attention, std::int64_t longest) {
  const Dim& batch = attention.input(0)->shape()[0];
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return tokens.is_constant() && tokens.constant() < longest && batch * tokens == Dim(longest);
}

bool is_all_batch(const Graph& graph) {
  bool has_attention = false;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention") continue;
    if (!has_more_batch(*node)) return false;
    has_attention = true;
  }
  return has_attention;
}

std::vector<TokenDim> pair_rows(const Node& attention) { return PairChain(attention).rows(); }

}  // namespace tutti
