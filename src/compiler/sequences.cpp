#include "compiler/sequences.h"

#include <algorithm>

#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

bool is_join(const TokenDim& at) {
  const Node* node = at.first->producer();
  return node->type() == "Concat" && node->attr_int("axis") == at.second;
}

std::vector<TokenDim> parts_of(const TokenDim& join) {
  std::vector<TokenDim> parts;
  for (const Value* input : join.first->producer()->inputs()) {
    parts.emplace_back(input, join.second);
  }
  return parts;
}

std::vector<Dim> sizes_of(const TokenDim& join) {
  std::vector<Dim> sizes;
  for (const TokenDim& part : parts_of(join)) sizes.push_back(tokens_of(part));
  return sizes;
}

// The factor that alone makes up the dimension; -1: none, or several.
int single_factor(const FactorMap& map, const TokenDim& at) {
  const auto output = static_cast<std::size_t>(at.first->producer_output());
  const auto& factors = map.outputs[output][static_cast<std::size_t>(at.second)];
  return factors.size() == 1 ? factors[0] : -1;
}

}  // namespace

const Dim& tokens_of(const TokenDim& at) {
  return at.first->shape()[static_cast<std::size_t>(at.second)];
}

int dimension_of_factor(const DimFactors& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (!operand[d].empty() && operand[d][0] == factor) return static_cast<int>(d);
  }
  return -1;
}

SequenceFinder::SequenceFinder(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention") continue;
    find_mixed({node->input(0), token_dimension(*node)});
    find_mixed({node->input(1), token_dimension(*node)});
  }
}

std::vector<Dim> SequenceFinder::segments_of(const TokenDim& at) {
  const TokenDim origin = find(at);
  if (origin.first == nullptr) return {};
  if (!is_join(origin)) return segments_of_cut(origin);
  // Joined elsewhere by itself, and of pieces that an attention has made there.
  const bool is_mixed = mixed_.contains(sizes_of(origin));
  const auto twin = std::find_if(joins_.begin(), joins_.end(), [&](const TokenDim& join) {
    return tokens_of(join) == tokens_of(origin);
  });
  if (!is_mixed && twin == joins_.end()) return {};
  return segments_of_join(is_mixed ? origin : *twin);
}

std::vector<Dim> SequenceFinder::segments_of_join(const TokenDim& origin) {
  // A part may be cut from as many tokens as are joined here: it is one sequence.
  if (!open_.insert(origin).second) return {};
  std::vector<Dim> segments;
  for (const TokenDim& part : parts_of(origin)) {
    const std::vector<Dim> nested = segments_of(part);
    segments.insert(segments.end(), nested.begin(), nested.end());
    if (nested.empty()) segments.push_back(tokens_of(part));
  }
  open_.erase(origin);
  return segments;
}

// Of a Slice or Split: the run of its operand's segments that it takes.
std::vector<Dim> SequenceFinder::segments_of_cut(const TokenDim& cut) {
  const Node& node = *cut.first->producer();
  const FactorMap map = factors_of(node);
  const int part = single_factor(map, cut);
  const FactorSum& sum = *map.sum_with(part);
  const int dim = dimension_of_factor(map.inputs[0], sum.whole);
  if (dim < 0) return {};
  const auto runs = segments_of_parts(map, sum, segments_of({node.input(0), dim}));
  if (!runs) return {};
  const auto at = std::find(sum.parts.begin(), sum.parts.end(), part) - sum.parts.begin();
  const std::vector<Dim>& run = (*runs)[static_cast<std::size_t>(at)];
  return run.size() > 1 ? run : std::vector<Dim>();
}

void SequenceFinder::find_mixed(const TokenDim& at) {
  const TokenDim origin = find(at);
  if (origin.first == nullptr || !visited_.insert(origin).second) return;
  if (!is_join(origin)) return find_mixed({origin.first->producer()->input(0), origin.second});
  bool is_mixed = false;
  for (const TokenDim& part : parts_of(origin)) {
    is_mixed |= depends_on_attention(part.first);
    find_mixed(part);
  }
  if (!is_mixed) return;
  mixed_.insert(sizes_of(origin));
  joins_.push_back(origin);
}

// The value, on the way to `at`, in which these tokens are joined or cut; null: there is none.
TokenDim SequenceFinder::find(const TokenDim& at) {
  const auto [known, is_new] = origins_.emplace(at, TokenDim{nullptr, 0});
  if (!is_new || at.first->producer() == nullptr) return known->second;
  return origins_[at] = is_join(at) ? at : find_behind(at);
}

TokenDim SequenceFinder::find_behind(const TokenDim& at) {
  const Node& node = *at.first->producer();
  const FactorMap map = factors_of(node);
  const int factor = single_factor(map, at);
  if (factor < 0) return {nullptr, 0};
  if (node.inputs().size() == 1 && map.sum_with(factor) != nullptr) return at;  // Slice, Split
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (node.input(i) == nullptr) continue;
    const int dim = dimension_of_factor(map.inputs[i], factor);
    if (dim < 0) continue;
    if (const TokenDim found = find({node.input(i), dim}); found.first != nullptr) return found;
  }
  return {nullptr, 0};
}

bool SequenceFinder::depends_on_attention(const Value* value) {
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

}  // namespace tutti
