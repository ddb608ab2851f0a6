// Ulysses context parallelism: tokens are split everywhere but inside attentions, which take heads.
#include <algorithm>
#include <limits>

#include "compiler/attention_exchange.h"
#include "compiler/cost.h"
#include "compiler/hoist.h"
#include "compiler/layout.h"
#include "compiler/sequences.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/token_grids.h"
#include "compiler/token_groups.h"

namespace tutti {
namespace {

// Nodes between a projection and its attention: they move, turn and scale tokens.
bool is_light(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Transpose", "Reshape", "Slice", "Split", "Concat", "RMSNormalization", "LayerNormalization"};
  return node.op().is_pointwise || kTypes.contains(node.type());
}

// The operands of a Concat that joins token sequences (text and video, say) on the way to an
// attention's operand; empty when nothing is joined there.
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

// Where an attention's output is cut along tokens again: the results of Slice or Split.
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

bool contains_size(const std::vector<TokenDim>& sequences, const Dim& size) {
  return std::any_of(sequences.begin(), sequences.end(),
                     [&](const TokenDim& at) { return tokens_of(at) == size; });
}

bool is_single(const TokenDim& at) { return tokens_of(at).is(1); }

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

// More sequences than tokens in each of them.
bool has_more_batch(const Node& attention) {
  const Dim& batch = attention.input(0)->shape()[0];
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return batch.is_constant() && tokens.is_constant() && tokens.constant() < batch.constant();
}

// Many short sequences beside long ones: attention over the frames of each place in a video, whose
// places are the tokens of another attention. It follows the split of its batch.
bool is_over_batch(const Node& attention, std::int64_t longest) {
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return tokens.is_constant() && tokens.constant() < longest && has_more_batch(attention);
}

// The tokens of the longest sequence in groups, frame by frame: pieces of the sequence are not
// pieces of each group.
bool is_in_groups(const Node& attention, std::int64_t longest) {
  const Dim& batch = attention.input(0)->shape()[0];
  const Dim& tokens = tokens_of({attention.input(0), token_dimension(attention)});
  return tokens.is_constant() && tokens.constant() < longest && batch * tokens == Dim(longest);
}

// Nothing but many short sequences.
bool is_all_batch(const Graph& graph) {
  bool has_attention = false;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Attention") continue;
    if (!has_more_batch(*node)) return false;
    has_attention = true;
  }
  return has_attention;
}

// Values over pairs of a query and a key, back from an attention's mask: a pair representation.
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

  // Each with its dimension of queries; nothing where no real work stands in front of the mask.
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

class UlyssesSeeder {
 public:
  // `rows`: tokens that are only cut between whole rows of a grid.
  UlyssesSeeder(const Graph& graph, const CompileOptions& options, int axis,
                std::vector<TokenRows> rows, AxisSeeds* seeds)
      : graph_(graph),
        mesh_(options.mesh),
        axis_(axis),
        chooses_(options.attention_exchange),
        keeps_queries_(options.attention_exchange == AttentionExchange::kGather ||
                       options.attention_exchange == AttentionExchange::kRing),
        rates_(options.rates),
        sizes_(typical_sizes(graph, options)),
        seeds_(seeds),
        rows_(std::move(rows)),
        sequences_(graph),
        varying_(varying_values(graph, options.invariant_inputs)) {}

  void run() {
    if (is_all_batch(graph_)) return seed_batches();
    const std::int64_t longest = longest_sequence(graph_);
    for (const auto& node : graph_.nodes()) {
      if (is_across_tokens(*node)) seeds_->least_bytes.insert(node.get());
      if (node->type() != "Attention" || is_over_batch(*node, longest)) continue;
      if (is_single({node->input(0), token_dimension(*node)})) {
        seed_single(*node);
        continue;
      }
      for (const TokenDim& pairs : PairChain(*node).rows()) seed_tokens(pairs);
      const auto units = head_units(*node, mesh_.size(axis_));
      if (is_in_groups(*node, longest)) {
        if (units && !has_whole_groups(*node)) seed_groups(*node, *units);
        continue;
      }
      const TravellingRows rows = travelling_rows(*node);
      seeds_->attentions.emplace(node.get(), rows);
      const bool keeps_queries = keeps_queries_ || (units && gathers(*node));
      if (units && seed_joined(*node, *units, keeps_queries)) continue;
      if (units && !keeps_queries) seed_context(*node, *units);
      seed_plain(*node, keeps_queries);
    }
  }

 private:
  // Its pieces of the queries are groups, and it has all keys: nothing is to be exchanged.
  bool has_whole_groups(const Node& attention) const {
    const auto groups = token_groups(attention);
    return groups && groups->are_pieces(mesh_.size(axis_)) &&
           !varying_.contains(attention.input(1)) && !varying_.contains(attention.input(2));
  }

  // A product of what two projections made (of pairs of tokens, as in triangle multiplication).
  bool is_across_tokens(const Node& node) const {
    return chooses_ == AttentionExchange::kAuto && node.type() == "MatMul" &&
           varying_.contains(node.input(0)) && varying_.contains(node.input(1));
  }

  TravellingRows travelling_rows(const Node& attention) const {
    const int dim = token_dimension(attention);
    TravellingRows rows;
    rows.queries = varying_rows({attention.input(0), dim});
    rows.keys = varying_rows({attention.input(1), dim});
    rows.bias_heads = bias_heads(attention);
    return rows;
  }

  // Of a pair representation that changes from call to call.
  Dim bias_heads(const Node& attention) const {
    const Value* mask = attention.input(3);
    if (mask == nullptr || !varying_.contains(mask)) return 0;
    if (PairChain(attention).rows().empty()) return 0;
    return mask->rank() > 2 ? mask->shape()[mask->rank() - 3] : Dim(1);
  }

  // Of what is joined right in front of an attention, or of the whole.
  Dim varying_rows(const TokenDim& at) const {
    const std::vector<TokenDim> parts = joined_at(at);
    Dim rows = 0;
    for (const TokenDim& part : parts) {
      if (varying_.contains(part.first)) rows = rows + tokens_of(part);
    }
    if (parts.size() > 1) return rows;
    return varying_.contains(at.first) ? tokens_of(at) : Dim(0);
  }

  // Only a choice where keys are of the queries' tokens. A short context's are priced later on.
  bool gathers(const Node& attention) {
    if (chooses_ != AttentionExchange::kAuto || !asks_itself(attention)) return false;
    return gathering_is_cheaper(attention, bytes_together(attention), mesh_.size(axis_), rates_,
                                sizes_);
  }

  // Keys of a long context that changes from call to call, of a few queries, move more than their
  // heads would.
  bool has_long_context(const Node& attention) const {
    if (chooses_ != AttentionExchange::kAuto) return false;
    const AttentionBytes bytes = bytes_together(attention);
    return bytes.heads && *bytes.heads < bytes.keys;
  }

  // Attentions that read the same values choose together.
  AttentionBytes bytes_together(const Node& attention) const {
    AttentionBytes all{0.0, 0};
    std::vector<const Node*> asked;  // one may read the values twice
    for (const Node* node : attention.input(2)->users()) {
      if (node->type() != "Attention" || node->input(2) != attention.input(2) ||
          std::find(asked.begin(), asked.end(), node) != asked.end()) {
        continue;
      }
      TravellingRows rows = travelling_rows(*node);
      rows.has_values = asked.empty();
      asked.push_back(node);
      const AttentionBytes one = attention_bytes(*node, rows, mesh_.size(axis_), sizes_);
      all.keys += one.keys;
      if (all.heads) all.heads = one.heads ? std::optional(*all.heads + *one.heads) : std::nullopt;
    }
    return all;
  }

  void seed_batches() {
    for (const auto& node : graph_.nodes()) {
      if (node->type() != "Attention") continue;
      for (const Value* value : {node->input(0), node->output()}) {
        seeds_->labels.emplace_back(value, Split{0, axis_, value->shape()[0], 1});
      }
    }
  }

  // One query (the last token, say) is no sequence to cut, but its keys may be one that changes.
  void seed_single(const Node& attention) {
    if (!head_units(attention, mesh_.size(axis_)) || !has_long_context(attention)) return;
    seeds_->attentions.emplace(&attention, travelling_rows(attention));
    seeds_->prefer_heads.insert(&attention);
  }

  void seed_groups(const Node& attention, const Dim& units) {
    for (const Value* value : {attention.input(0), attention.output()}) {
      seed_heads(attention, value, units);
    }
  }

  static std::vector<TokenDim> joined_at(const TokenDim& at) {
    std::vector<TokenDim> joined;
    std::set<TokenDim> seen;
    find_joined(at, &seen, &joined);
    return joined;
  }

  void seed_tokens(const TokenDim& at, std::vector<Dim> segments = {}) {
    Dim units = tokens_of(at);
    for (const TokenRows& grid : rows_) {
      if (segments.empty() && grid.tokens == units) {
        units = grid.rows;
        break;
      }
    }
    seeds_->labels.emplace_back(at.first,
                                Split{at.second, axis_, std::move(units), 1, std::move(segments)});
  }

  // Queries and results are cut into `units`, keys and values into as many groups with copies.
  void seed_heads(const Node& attention, const Value* operand, const Dim& units) {
    const int heads = 3 - token_dimension(attention);
    const Dim& size = operand->shape()[static_cast<std::size_t>(heads)];
    const Dim& groups = attention.input(1)->shape()[static_cast<std::size_t>(heads)];
    const bool has_groups = operand == attention.input(1) || operand == attention.input(2);
    const auto copies = exact_div(units, groups);
    if (has_groups && size == groups && copies) {
      seeds_->labels.emplace_back(
          operand, Split{heads, axis_, groups, static_cast<int>(copies->constant())});
    } else {
      seeds_->labels.emplace_back(operand, Split{heads, axis_, units, 1});
    }
  }

  // The queries are put together from several sequences right in front of the attention. Each
  // sequence is split by itself; the join happens over whole sequences and split heads. An operand
  // that comes in one (the values, where only the others are turned) is in segments until then.
  bool seed_joined(const Node& attention, const Dim& units, bool keeps_queries) {
    const int dim = token_dimension(attention);
    const TokenDim query{attention.input(0), dim};
    const std::vector<TokenDim> sequences = joined_at(query);
    if (sequences.size() < 2) return false;
    std::vector<Dim> segments;  // of the joined one: the sequences, or those that make them up
    std::vector<std::pair<Dim, std::vector<Dim>>> nested;  // size of such a sequence, and those
    Dim sum = 0;
    for (const TokenDim& sequence : sequences) {
      std::vector<Dim> runs = sequences_.segments_of(sequence);
      sum = sum + tokens_of(sequence);
      if (runs.empty()) {
        segments.push_back(tokens_of(sequence));
        continue;
      }
      segments.insert(segments.end(), runs.begin(), runs.end());
      nested.emplace_back(tokens_of(sequence), std::move(runs));
    }
    std::vector<const Value*> with_heads;
    std::vector<const Value*> in_segments;
    const auto seed_part = [&](const TokenDim& part) {
      const auto runs = std::find_if(nested.begin(), nested.end(), [&](const auto& entry) {
        return entry.first == tokens_of(part);
      });
      seed_tokens(part, runs == nested.end() ? std::vector<Dim>() : runs->second);
    };
    const auto seed_operand = [&](const Value* value, const std::vector<TokenDim>& parts) {
      for (const TokenDim& part : parts) seed_part(part);
      const bool is_one = parts.size() < 2 && tokens_of({value, dim}) == sum;
      (is_one || keeps_queries ? in_segments : with_heads).push_back(value);
    };
    if (keeps_queries) {
      seed_operand(attention.input(0), sequences);
      seed_gathered(attention);
    }
    for (std::size_t i = 0; i < 3 && !keeps_queries; ++i) {
      seed_operand(attention.input(i), joined_at({attention.input(i), dim}));
    }
    std::vector<TokenDim> cut;
    std::set<TokenDim> seen;
    find_cut({attention.output(), dim}, &seen, &cut);
    seed_operand(attention.output(), cut);
    for (const Value* value : with_heads) seed_heads(attention, value, units);
    for (const Value* value : in_segments) seed_tokens({value, dim}, segments);
    (keeps_queries ? seeds_->prefer_queries : seeds_->prefer_heads).insert(&attention);
    return true;
  }

  // Keys and values that are joined come together part by part: what does not change does not
  // travel with the rest.
  void seed_gathered(const Node& attention) {
    const int dim = token_dimension(attention);
    for (const Value* operand : {attention.input(1), attention.input(2)}) {
      for (const TokenDim& part : joined_at({operand, dim})) {
        if (varying_.contains(part.first)) seed_tokens(part, sequences_.segments_of(part));
      }
      mark_whole({operand, dim});
    }
  }

  // What stands between an operand and the Concat that joins it, if there is one.
  void mark_whole(TokenDim at) {
    std::set<const Node*> nodes;
    for (const Node* node = at.first->producer(); node != nullptr && is_light(*node);
         node = at.first->producer()) {
      nodes.insert(node);
      if (node->type() == "Concat" && node->attr_int("axis") == at.second) {
        seeds_->whole.merge(nodes);
        return;
      }
      const FactorMap map = factors_of(*node);
      const auto output = static_cast<std::size_t>(at.first->producer_output());
      const auto& tokens = map.outputs[output][static_cast<std::size_t>(at.second)];
      const int dim = tokens.empty() ? -1 : dimension_of_factor(map.inputs[0], tokens[0]);
      if (dim < 0) return;
      at = {node->input(0), dim};
    }
  }

  // The queries attend to themselves and to more: the join happens over split heads.
  void seed_context(const Node& attention, const Dim& units) {
    const int dim = token_dimension(attention);
    std::vector<TokenDim> context = joined_at({attention.input(1), dim});
    if (context.size() < 2) return;
    if (!contains_size(context, tokens_of({attention.input(0), dim}))) return;
    for (const Value* operand : {attention.input(1), attention.input(2)}) {
      for (const TokenDim& sequence : joined_at({operand, dim})) {
        seed_tokens(sequence, sequences_.segments_of(sequence));
      }
    }
    for (const Value* operand : {attention.input(1), attention.input(2)}) {
      seed_heads(attention, operand, units);
      seed_join({operand, dim}, seeds_->labels.back().second);
    }
    seeds_->prefer_heads.insert(&attention);
  }

  // Carries a label back to the Concat that joins the sequences. It would keep them in segments
  // otherwise, and a prompt's keys would travel with those of the video, in every call.
  void seed_join(TokenDim at, Split label) {
    const Node* node = at.first->producer();
    while (node != nullptr && is_light(*node)) {
      if (node->type() == "Concat" && node->attr_int("axis") == at.second) {
        seeds_->labels.emplace_back(at.first, label);
        return;
      }
      const FactorMap map = factors_of(*node);
      const auto output = static_cast<std::size_t>(at.first->producer_output());
      const auto& tokens = map.outputs[output][static_cast<std::size_t>(at.second)];
      const auto split = factor_split_from(map, map.outputs[output], label, mesh_.size(axis_));
      if (!split || tokens.empty()) return;
      const auto before = split_under(map, map.inputs[0], *split, axis_);
      const int dim = dimension_of_factor(map.inputs[0], tokens[0]);
      if (!before || dim < 0) return;
      at = {node->input(0), dim};
      label = *before;
      node = at.first->producer();
    }
  }

  void seed_plain(const Node& attention, bool keeps_queries) {
    const int dim = token_dimension(attention);
    const TokenDim query{attention.input(0), dim};
    const std::vector<Dim> segments = sequences_.segments_of(query);
    seed_tokens(query, segments);
    seed_tokens({attention.output(), dim}, segments);
    if (keeps_queries) {
      seeds_->prefer_queries.insert(&attention);
      const Value* key = attention.input(1);
      const bool has_steady =
          varying_.contains(key) && varying_rows({key, dim}) != tokens_of({key, dim});
      if (has_steady) seed_gathered(attention);
    } else if (asks_itself(attention) || has_long_context(attention)) {
      seeds_->prefer_heads.insert(&attention);
    }
  }

  // Also some of the sequences all of them. Short contexts of another length are better gathered.
  bool asks_itself(const Node& attention) {
    const int dim = token_dimension(attention);
    const TokenDim key{attention.input(1), dim};
    const Dim& queries = tokens_of({attention.input(0), dim});
    if (tokens_of(key) == queries) return true;
    std::vector<Dim> sequences = sequences_.segments_of(key);
    if (sequences.empty()) {
      for (const TokenDim& part : joined_at(key)) sequences.push_back(tokens_of(part));
    }
    for (std::size_t first = 0; first < sequences.size(); ++first) {
      Dim run = 0;
      for (std::size_t last = first; last < sequences.size(); ++last) {
        run = run + sequences[last];
        if (run == queries) return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const int axis_;
  const AttentionExchange chooses_;
  const bool keeps_queries_;  // keys come to them, whole or in a ring
  const CostRates& rates_;
  const SizeEstimate sizes_;
  AxisSeeds* seeds_;
  const std::vector<TokenRows> rows_;
  SequenceFinder sequences_;
  const std::set<const Value*> varying_;
};

}  // namespace

void seed_ulysses(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds) {
  // Any tokens are pieces, unless convolutions between attentions would have to be computed whole
  // for it.
  constexpr double kMuchLess = 1.1;
  const std::vector<std::vector<TokenRows>> grids = token_grids(graph);
  std::vector<TokenRows> best;
  if (!grids.empty()) {
    const FactorMaps maps = factor_maps(graph, seeds->moves_rows);
    const auto flops_with = [&](const std::vector<TokenRows>& rows) {
      AxisSeeds tried = *seeds;
      UlyssesSeeder(graph, options, axis, rows, &tried).run();
      const auto outcome = outcome_of(graph, options, axis, maps, tried);
      return outcome ? outcome->busiest_flops : std::numeric_limits<double>::infinity();
    };
    double least = flops_with(best);
    for (const std::vector<TokenRows>& rows : grids) {
      const double flops = flops_with(rows);
      if (flops * kMuchLess >= least) continue;
      least = flops;
      best = rows;
    }
  }
  UlyssesSeeder(graph, options, axis, std::move(best), seeds).run();
}

}  // namespace tutti
