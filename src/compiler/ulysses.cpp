// Ulysses context parallelism: tokens are split everywhere but inside attentions, which take heads.
#include <algorithm>
#include <map>

#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/tables.h"

namespace tutti {
namespace {

using TokenDim = std::pair<const Value*, int>;  // a value and its token dimension

// Nodes between a projection and its attention: they move, turn and scale tokens.
bool is_light(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Transpose", "Reshape", "Slice", "Split", "Concat", "RMSNormalization", "LayerNormalization"};
  return node.op().is_pointwise || kTypes.contains(node.type());
}

bool is_cut_along(const Node& node, int dim) {
  if (node.type() == "Split") return node.attr_int("axis") == dim;
  if (node.type() != "Slice") return false;
  const auto axes = node.attr_ints("axes");
  return std::find(axes.begin(), axes.end(), dim) != axes.end();
}

int dimension_of_factor(const DimFactors& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (!operand[d].empty() && operand[d][0] == factor) return static_cast<int>(d);
  }
  return -1;
}

// Looks for the operands of Concats that join token sequences (text and video, say) on the way to
// an attention's operand.
class JoinSearch {
 public:
  void from(const TokenDim& at) {
    const Node* node = at.first->producer();
    if (node == nullptr || !seen_.insert(at).second) return;
    if (!is_light(*node)) {
      has_unjoined_ = has_unjoined_ || !tables_.contains(at.first);
      return;
    }
    if (node->type() == "Concat" && node->attr_int("axis") == at.second) {
      if (tables_.contains(at.first)) return;
      for (const Value* input : node->inputs()) {
        const TokenDim operand{input, at.second};
        if (std::find(joined_.begin(), joined_.end(), operand) == joined_.end()) {
          joined_.push_back(operand);
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
      const int dim = dimension_of_factor(map.inputs[i], factors[0]);
      if (dim >= 0) from({node->input(i), dim});
    }
  }

  // Tables that are joined, such as the rotary angles of text and video, join no sequences.
  bool has_joined() const { return joined_.size() > 1 && !has_unjoined_; }
  const std::vector<TokenDim>& joined() const { return joined_; }

 private:
  std::set<TokenDim> seen_;
  std::vector<TokenDim> joined_;
  Tables tables_;
  bool has_unjoined_ = false;
};

// Where an attention's output is cut along tokens again: the results of Slice or Split.
void find_cut(const TokenDim& at, std::set<TokenDim>* seen, std::vector<TokenDim>* cut) {
  if (!seen->insert(at).second) return;
  for (const Node* node : at.first->users()) {
    if (!is_light(*node)) continue;
    if (is_cut_along(*node, at.second)) {
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

bool contains_size(const std::vector<TokenDim>& sequences, const Dim& size) {
  return std::any_of(sequences.begin(), sequences.end(), [&](const TokenDim& at) {
    return at.first->shape()[static_cast<std::size_t>(at.second)] == size;
  });
}

// Units of the query heads so that every rank has heads of its own; nullopt: heads run out.
std::optional<Dim> head_units(const Node& attention, int ranks) {
  const auto heads = static_cast<std::size_t>(3 - token_dimension(attention));
  const Dim& query = attention.input(0)->shape()[heads];
  const Dim& groups = attention.input(1)->shape()[heads];
  if (!query.is_constant() || !groups.is_constant() || groups.is(0)) return std::nullopt;
  const std::int64_t size = query.constant() / groups.constant();
  for (std::int64_t copies = 1; copies <= size; ++copies) {
    const std::int64_t units = groups.constant() * copies;
    if (size % copies == 0 && units >= ranks) return Dim(units);
  }
  return std::nullopt;
}

// Looks for the concatenation of sequences that a token dimension comes from, however far back.
class SequenceFinder {
 public:
  // Sizes of its operands, in order; empty when there is none, or when nothing has mixed the tokens
  // of any operand yet: then one split of the whole is simpler and computes little twice.
  std::vector<Dim> segments_of(const TokenDim& at) {
    const Node* concat = find(at);
    std::vector<Dim> sizes;
    if (concat == nullptr) return sizes;
    const auto dim = static_cast<std::size_t>(concat->attr_int("axis"));
    const bool is_mixed =
        std::any_of(concat->inputs().begin(), concat->inputs().end(),
                    [&](const Value* input) { return depends_on_attention(input); });
    if (!is_mixed) return sizes;
    for (const Value* input : concat->inputs()) sizes.push_back(input->shape()[dim]);
    return sizes;
  }

 private:
  const Node* find(const TokenDim& at) {
    const auto [known, is_new] = concats_.emplace(at, nullptr);
    const Node* node = at.first->producer();
    if (!is_new || node == nullptr) return known->second;
    if (node->type() == "Concat" && node->attr_int("axis") == at.second) {
      return concats_[at] = node;
    }
    const FactorMap map = factors_of(*node);
    const auto output = static_cast<std::size_t>(at.first->producer_output());
    const auto& factors = map.outputs[output][static_cast<std::size_t>(at.second)];
    if (factors.size() != 1) return nullptr;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      if (node->input(i) == nullptr) continue;
      const int dim = dimension_of_factor(map.inputs[i], factors[0]);
      if (dim < 0) continue;
      if (const Node* found = find({node->input(i), dim})) return concats_[at] = found;
    }
    return nullptr;
  }

  bool depends_on_attention(const Value* value) {
    const auto [known, is_new] = depends_.emplace(value, false);
    const Node* node = value->producer();
    if (!is_new || node == nullptr) return known->second;
    const bool depends =
        node->type() == "Attention" ||
        std::any_of(node->inputs().begin(), node->inputs().end(), [&](const Value* input) {
          return input != nullptr && depends_on_attention(input);
        });
    return depends_[value] = depends;
  }

  std::map<TokenDim, const Node*> concats_;
  std::map<const Value*, bool> depends_;
};

bool is_single(const TokenDim& at) {
  return at.first->shape()[static_cast<std::size_t>(at.second)].is(1);
}

// Tokens of the longest sequences; 0 where a size is open.
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

// Many short sequences beside long ones: attention over the frames of each place in a video, whose
// places are the tokens of another attention. It follows the split of its batch.
bool is_over_batch(const Node& attention, std::int64_t longest) {
  const Dim& batch = attention.input(0)->shape()[0];
  const Dim& tokens =
      attention.input(0)->shape()[static_cast<std::size_t>(token_dimension(attention))];
  return batch.is_constant() && tokens.is_constant() && tokens.constant() < longest &&
         tokens.constant() < batch.constant();
}

}  // namespace

void seed_ulysses(const Graph& graph, const Mesh& mesh, int axis, AxisSeeds* seeds) {
  const auto seed_tokens = [&](const TokenDim& at, std::vector<Dim> segments = {}) {
    const Dim& size = at.first->shape()[static_cast<std::size_t>(at.second)];
    seeds->labels.emplace_back(at.first, Split{at.second, axis, size, 1, std::move(segments)});
  };
  const std::int64_t longest = longest_sequence(graph);
  SequenceFinder sequences;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention" || is_over_batch(*node, longest)) continue;
    const int tokens = token_dimension(*node);
    const TokenDim query{node->input(0), tokens};
    const TokenDim key{node->input(1), tokens};
    const TokenDim output{node->output(), tokens};
    if (is_single(query)) continue;
    JoinSearch search;
    search.from(query);
    const auto units = head_units(*node, mesh.size(axis));
    if (search.has_joined() && units) {
      // Each sequence is split by itself; the join happens over whole sequences and split heads.
      search.from(key);
      search.from({node->input(2), tokens});
      std::vector<TokenDim> joined = search.joined();
      std::set<TokenDim> seen;
      find_cut(output, &seen, &joined);
      for (const TokenDim& sequence : joined) seed_tokens(sequence);
      const Dim& groups = key.first->shape()[static_cast<std::size_t>(3 - tokens)];
      const auto copies = static_cast<int>(floor_div(*units, groups).constant());
      for (const Value* value : {node->input(0), node->output()}) {
        seeds->labels.emplace_back(value, Split{3 - tokens, axis, *units, 1});
      }
      for (const Value* value : {node->input(1), node->input(2)}) {
        seeds->labels.emplace_back(value, Split{3 - tokens, axis, groups, copies});
      }
      continue;
    }
    JoinSearch context;
    context.from(key);
    const Dim& queries = query.first->shape()[static_cast<std::size_t>(tokens)];
    if (context.has_joined() && units && contains_size(context.joined(), queries)) {
      // The queries attend to themselves and to more: the join happens over split heads.
      context.from({node->input(2), tokens});
      for (const TokenDim& sequence : context.joined()) seed_tokens(sequence);
      const Dim& groups = key.first->shape()[static_cast<std::size_t>(3 - tokens)];
      const auto copies = exact_div(*units, groups);
      for (const Value* operand : {node->input(1), node->input(2)}) {
        seeds->labels.emplace_back(
            operand, Split{3 - tokens, axis, groups, static_cast<int>(copies->constant())});
      }
      seeds->prefer_heads.insert(node.get());
    }
    const std::vector<Dim> segments = sequences.segments_of(query);
    seed_tokens(query, segments);
    seed_tokens(output, segments);
    // Self-attention. Short contexts of another length are better gathered.
    const auto at = static_cast<std::size_t>(tokens);
    if (key.first->shape()[at] == query.first->shape()[at]) {
      seeds->prefer_heads.insert(node.get());
    }
  }
}

}  // namespace tutti
