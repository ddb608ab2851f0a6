#include "compiler/sequences.h"

#include <algorithm>

#include "compiler/match.h"
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

// Of a Slice or Split: where its operand's tokens are cut.
Dim start_of_cut(const TokenDim& cut) {
  const Node& node = *cut.first->producer();
  if (node.type() == "Slice") {
    const auto axes = node.attr_ints("axes");
    const auto at = std::find(axes.begin(), axes.end(), cut.second) - axes.begin();
    return node.attr_dims("starts")[static_cast<std::size_t>(at)];
  }
  Dim start = 0;
  const Shape sizes = node.attr_dims("sizes");
  for (int i = 0; i < cut.first->producer_output(); ++i) {
    start = start + sizes[static_cast<std::size_t>(i)];
  }
  return start;
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
  for (const auto& node : graph.nodes()) {
    find_taken_apart(*node);
    if (node->type() == "Attention") find_asking(*node);
  }
}

std::vector<Dim> SequenceFinder::segments_of(const TokenDim& at) {
  const TokenDim origin = find(at);
  if (origin.first == nullptr) return segments_between_borders(tokens_of(at));
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
  if (is_mixed) mark(origin);
}

// A Slice or Split gives some of the joined sequences back, behind an attention. Pieces of the
// whole would have to be brought together for that.
void SequenceFinder::find_taken_apart(const Node& node) {
  std::vector<std::pair<Dim, Dim>> cuts;
  int dim = 0;
  if (node.type() == "Slice") {
    const auto axes = node.attr_ints("axes");
    if (axes.size() != 1 || node.attr_ints("steps")[0] != 1) return;
    dim = static_cast<int>(axes[0]);
    cuts.emplace_back(node.attr_dims("starts")[0], node.attr_dims("ends")[0]);
  } else if (node.type() == "Split") {
    dim = static_cast<int>(node.attr_int("axis"));
    Dim start = 0;
    for (const Dim& size : node.attr_dims("sizes")) {
      cuts.emplace_back(start, start + size);
      start = start + size;
    }
  }
  const TokenDim whole{node.input(0), dim};
  if (cuts.empty() || !are_of_queries(whole)) return;
  for (const auto& [start, end] : cuts) {
    if (!start.is(0) || end != tokens_of(whole)) mark_cut(whole, start, end);
  }
}

// Whether [start, end) are some of what is joined, or a stretch of one of these.
bool SequenceFinder::mark_cut(const TokenDim& at, const Dim& start, const Dim& end) {
  const TokenDim origin = find(at);
  if (origin.first == nullptr) return borders_[tokens_of(at)].insert({start, end}), true;
  if (!is_join(origin)) {
    const Dim before = start_of_cut(origin);
    const Node& node = *origin.first->producer();
    return mark_cut({node.input(0), origin.second}, before + start, before + end);
  }
  Dim low = 0;
  bool starts = false;
  bool is_cut = false;
  for (const TokenDim& part : parts_of(origin)) {
    const Dim high = low + tokens_of(part);
    starts |= low == start;
    is_cut |= starts && high == end;
    const bool is_inside = is_never_negative(start - low) && is_never_negative(high - end);
    if (!is_cut && is_inside) is_cut = mark_cut(part, start - low, end - low);
    low = high;
  }
  if (is_cut) mark(origin);
  return is_cut;
}

// The dimension is that of some attention's queries.
bool SequenceFinder::are_of_queries(const TokenDim& at) {
  const auto [known, is_new] = of_queries_.emplace(at, false);
  const Node* node = at.first->producer();
  if (!is_new || node == nullptr) return known->second;
  if (node->type() == "Attention") return of_queries_[at] = at.second == token_dimension(*node);
  const FactorMap map = factors_of(*node);
  const int factor = single_factor(map, at);
  for (std::size_t i = 0; factor >= 0 && i < node->inputs().size(); ++i) {
    if (node->input(i) == nullptr) continue;
    const int dim = dimension_of_factor(map.inputs[i], factor);
    if (dim >= 0 && are_of_queries({node->input(i), dim})) return of_queries_[at] = true;
  }
  return false;
}

// Where some tokens are cut out that nobody joined; nothing where that is in too many places.
std::vector<Dim> SequenceFinder::segments_between_borders(const Dim& tokens) const {
  constexpr std::size_t kMaxCuts = 4;
  const auto found = borders_.find(tokens);
  if (found == borders_.end() || found->second.size() > kMaxCuts) return {};
  std::vector<Dim> borders = {Dim(0)};
  for (const auto& [start, end] : found->second) {
    borders.push_back(start);
    borders.push_back(end);
  }
  borders.push_back(tokens);
  const bool are_ordered = std::all_of(borders.begin(), borders.end(), [&](const Dim& a) {
    return std::all_of(borders.begin(), borders.end(), [&](const Dim& b) {
      return is_never_negative(a - b) || is_never_negative(b - a);
    });
  });
  if (!are_ordered) return {};
  std::sort(borders.begin(), borders.end(),
            [](const Dim& a, const Dim& b) { return a != b && is_never_negative(b - a); });
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<Dim> segments;
  for (std::size_t i = 1; i < borders.size(); ++i) segments.push_back(borders[i] - borders[i - 1]);
  return segments.size() > 1 ? segments : std::vector<Dim>();
}

// An attention's queries are one of the sequences that its keys are joined of, or a stretch of
// them.
void SequenceFinder::find_asking(const Node& attention) {
  const int dim = token_dimension(attention);
  const Dim& asking = tokens_of({attention.input(0), dim});
  const TokenDim asked = find({attention.input(0), dim});
  if (asked.first != nullptr && !is_join(asked)) {
    const TokenDim all{asked.first->producer()->input(0), asked.second};
    const Dim start = start_of_cut(asked);
    const bool are_keys = tokens_of(all) == tokens_of({attention.input(1), dim});
    if (are_keys && tokens_of(asked) == asking) mark_cut(all, start, start + asking);
  }
  const TokenDim origin = find({attention.input(1), dim});
  if (origin.first == nullptr || !is_join(origin)) return;
  const std::vector<Dim> sizes = sizes_of(origin);
  if (std::find(sizes.begin(), sizes.end(), asking) != sizes.end()) mark(origin);
}

void SequenceFinder::mark(const TokenDim& join) {
  mixed_.insert(sizes_of(join));
  if (std::find(joins_.begin(), joins_.end(), join) == joins_.end()) joins_.push_back(join);
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
