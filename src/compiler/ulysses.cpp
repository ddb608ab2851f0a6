// Ulysses context parallelism: tokens are split everywhere but inside attentions, which take heads.
#include <algorithm>
#include <limits>

#include "compiler/attention_exchange.h"
#include "compiler/attention_tokens.h"
#include "compiler/cost.h"
#include "compiler/hoist.h"
#include "compiler/layout.h"
#include "compiler/recurrences.h"
#include "compiler/sequences.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/token_grids.h"
#include "compiler/token_groups.h"

namespace tutti {
namespace {

bool contains_size(const std::vector<TokenDim>& sequences, const Dim& size) {
  return std::any_of(sequences.begin(), sequences.end(),
                     [&](const TokenDim& at) { return tokens_of(at) == size; });
}

bool is_single(const TokenDim& at) { return tokens_of(at).is(1); }

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
      for (const TokenDim& pairs : pair_rows(*node)) seed_tokens(pairs);
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
    if (pair_rows(attention).empty()) return 0;
    return mask->rank() > 2 ? mask->shape()[mask->rank() - 3] : Dim(1);
  }

  // Of what is joined right in front of an attention, or of the whole.
  Dim varying_rows(const TokenDim& at) const {
    const std::vector<TokenDim> parts = joined_before(at);
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
    const std::vector<TokenDim> sequences = joined_before(query);
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
      seed_operand(attention.input(i), joined_before({attention.input(i), dim}));
    }
    seed_operand(attention.output(), cut_behind({attention.output(), dim}));
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
      for (const TokenDim& part : joined_before({operand, dim})) {
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
    std::vector<TokenDim> context = joined_before({attention.input(1), dim});
    if (context.size() < 2) return;
    if (!contains_size(context, tokens_of({attention.input(0), dim}))) return;
    for (const Value* operand : {attention.input(1), attention.input(2)}) {
      for (const TokenDim& sequence : joined_before({operand, dim})) {
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
      for (const TokenDim& part : joined_before(key)) sequences.push_back(tokens_of(part));
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

// Steps of a recurrence take heads, of which each rank has to have some. Whether it has any.
bool seed_recurrences(const Graph& graph, int axis, int ranks, AxisSeeds* seeds) {
  bool has_any = false;
  for (const RecurrenceRows& found : recurrence_rows(graph)) {
    const Dim& heads = found.rows->shape()[static_cast<std::size_t>(found.heads)];
    if (heads.constant() < ranks) continue;
    seeds->labels.emplace_back(found.rows, Split{found.heads, axis, heads, 1});
    has_any = true;
  }
  return has_any;
}

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
  AxisSeeds with_heads = *seeds;
  const bool has_recurrences = seed_recurrences(graph, axis, options.mesh.size(axis), &with_heads);
  UlyssesSeeder(graph, options, axis, best, seeds).run();
  if (!has_recurrences) return;
  UlyssesSeeder(graph, options, axis, std::move(best), &with_heads).run();
  const FactorMaps maps = factor_maps(graph, seeds->moves_rows);
  const auto whole = outcome_of(graph, options, axis, maps, *seeds);
  const auto split = outcome_of(graph, options, axis, maps, with_heads);
  if (split && (!whole || is_better(*split, *whole))) *seeds = std::move(with_heads);
}

}  // namespace tutti
