#include <algorithm>

#include "compiler/conversion.h"
#include "compiler/cost.h"
#include "compiler/layout.h"
#include "compiler/match.h"
#include "compiler/strategy.h"
#include "compiler/weight_use.h"

namespace tutti {
namespace {

struct Price {
  double bytes = 0;  // that all ranks together send
  double seconds = 0;
};

// Sizes are those of the graph: pieces already where it is shared along other axes.
class SplitChooser {
 public:
  SplitChooser(const Graph& graph, const CompileOptions& options, int axis, const FactorMaps& maps,
               const Labels& labels, const AxisSeeds& seeds, const AxisConstraints& constraints)
      : graph_(graph),
        options_(options),
        mesh_(options.mesh),
        axis_(axis),
        maps_(maps),
        labels_(labels),
        seeds_(seeds),
        constraints_(constraints),
        size_(typical_sizes(graph, options)) {}

  Result<Sharding> run() {
    Sharding sharding;
    sharding.axis = axis_;
    for (const auto& node : graph_.nodes()) {
      TUTTI_ASSIGN_OR_RETURN(const Candidate split, choose(*node));
      std::set<StepKind> kinds;
      sharding.sent_bytes += operand_bytes(*node, maps_.at(node.get()), split, &kinds);
      sharding.busiest_flops += size_(node_flops(*node)) * largest_share(split);
      keep_versions(*node, split);
      if (split) sharding.nodes.emplace(node.get(), *split);
    }
    return sharding;
  }

 private:
  using Candidate = std::optional<FactorSplit>;

  Result<Candidate> choose(const Node& node) {
    const FactorMap& map = maps_.at(&node);
    const int ranks = mesh_.size(axis_);
    if (seeds_.whole.contains(&node) && constraints_.find(node) == nullptr) return Candidate();
    const Candidate follow = split_from_labels(node, map, labels_, ranks);
    const bool is_constrained = constraints_.find(node) != nullptr;
    const bool has_weight = seeds_.split_weights.contains(&node);
    const bool by_rows = has_weight && options_.split_all_weights &&
                         is_shared_table(*node.input(weight_use(node, map)->weight));
    if (follow && !is_constrained && !by_rows && price(node, map, follow).bytes == 0) return follow;
    if (!follow && !has_weight && !is_constrained && price(node, map, {}).bytes == 0) {
      return Candidate();
    }

    std::vector<Candidate> candidates = {std::nullopt};
    if (follow) candidates.push_back(follow);
    for (FactorSplit& split : possible_splits(map, ranks)) {
      if (is_possible_for(node, map, split, ranks)) candidates.emplace_back(std::move(split));
    }
    if (is_constrained) {
      for (FactorSplit& split : constraints_.demanded(node, map)) {
        candidates.emplace_back(std::move(split));
      }
      std::erase_if(candidates, [&](const Candidate& split) {
        return !constraints_.allows(node, map, pointer(split));
      });
      if (candidates.empty()) return constraints_.contradiction(node, map);
    }
    // A mask that was made in pieces is one more thing to exchange for heads, if nobody counted it.
    if (seeds_.prefer_heads.contains(&node) && (counts_bias(node) || !has_mask_in_pieces(node))) {
      keep_if_any(&candidates, [&](const Candidate& split) {
        return split && splits_heads(node, map, *split, ranks);
      });
    }
    if (seeds_.prefer_queries.contains(&node)) {
      keep_if_any(&candidates, [&](const Candidate& split) {
        return split && splits_queries(node, map, *split);
      });
    }
    if (has_weight && !by_rows && follow && splits_weight(node, map, *follow)) {
      keep_if_any(&candidates, [&](const Candidate& split) {
        return split && splits_weight(node, map, *split);
      });
    }
    if (has_weight && options_.split_all_weights) {
      keep_if_any(&candidates, [&](const Candidate& split) {
        return split && splits_weight(node, map, *split, by_rows);
      });
    }
    const bool goes_by_bytes = seeds_.least_bytes.contains(&node);
    Candidate best;
    std::pair<double, double> least;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Price one = price(node, map, candidates[i]);
      const std::pair cost(goes_by_bytes ? one.bytes : 0, one.seconds);
      if (i > 0 && cost >= least) continue;
      best = candidates[i];
      least = cost;
    }
    return best;
  }

  // Drops the candidates that are not wanted, unless none is.
  template <class F>
  static void keep_if_any(std::vector<Candidate>* candidates, F&& is_wanted) {
    if (std::none_of(candidates->begin(), candidates->end(), is_wanted)) return;
    std::erase_if(*candidates, [&](const Candidate& split) { return !is_wanted(split); });
  }

  // Each rank needs a piece of the node's weight only.
  static bool splits_weight(const Node& node, const FactorMap& map, const FactorSplit& split,
                            bool by_rows = false) {
    const auto use = weight_use(node, map);
    if (!use) return false;
    const auto held = split_under(map, map.inputs[use->weight], split, 0);
    return held && (!by_rows || held->dim == 0);
  }

  // Rows are looked up in it, and a product reads it: pieces of its rows serve both.
  static bool is_shared_table(const Value& weight) {
    const auto is_lookup = [](const Node* user) { return user->type() == "Gather"; };
    const auto lookups = std::count_if(weight.users().begin(), weight.users().end(), is_lookup);
    return lookups > 0 && lookups < std::ssize(weight.users());
  }

  bool counts_bias(const Node& attention) const {
    const auto rows = seeds_.attentions.find(&attention);
    return rows != seeds_.attentions.end() && !rows->second.bias_heads.is(0);
  }

  bool has_mask_in_pieces(const Node& attention) const {
    constexpr std::size_t kMask = 3;
    if (attention.inputs().size() <= kMask || attention.input(kMask) == nullptr) return false;
    const std::vector<Layout> known = versions(*attention.input(kMask));
    return std::none_of(known.begin(), known.end(),
                        [](const Layout& layout) { return layout.is_replicated(); });
  }

  static bool splits_queries(const Node& node, const FactorMap& map, const FactorSplit& split) {
    return split.factors == map.inputs[0][static_cast<std::size_t>(token_dimension(node))];
  }

  static const FactorSplit* pointer(const Candidate& split) { return split ? &*split : nullptr; }

  double steps_bytes(const Value& value, const Layout& from, const Layout& to,
                     std::set<StepKind>* kinds) const {
    double bytes = 0;
    Layout now = from;
    for (const ConversionStep& step : conversion_steps(from, to, mesh_)) {
      const Dim elements = sent_elements(step, value.shape(), now, mesh_);
      bytes += size_.mean_over_ranks(elements, mesh_, axis_) * mesh_.size(axis_) *
               static_cast<double>(dtype_size(value.dtype()));
      if (step.kind != StepKind::kSlice) kinds->insert(step.kind);
      now = after_step(std::move(now), step);
    }
    return bytes;
  }

  // That all ranks send so that each has its operands.
  double operand_bytes(const Node& node, const FactorMap& map, const Candidate& split,
                       std::set<StepKind>* kinds) const {
    double sum = 0;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr) continue;
      const Layout needed = input_layout(map, i, pointer(split), axis_);
      double best = -1;
      std::set<StepKind> best_kinds;
      for (const Layout& version : versions(*input)) {
        if (has_windows(version) && version != needed) continue;
        std::set<StepKind> version_kinds;
        const double bytes = steps_bytes(*input, version, needed, &version_kinds);
        if (best >= 0 && bytes >= best) continue;
        best = bytes;
        best_kinds = std::move(version_kinds);
      }
      sum += best;
      // It will travel with what its source has to exchange anyway.
      if (is_turned_elsewhere(*input)) best_kinds.erase(StepKind::kAllToAll);
      kinds->merge(best_kinds);
    }
    return sum;
  }

  Price price(const Node& node, const FactorMap& map, const Candidate& split) const {
    Price price;
    std::set<StepKind> before;
    std::set<StepKind> after;
    price.bytes = operand_bytes(node, map, split, &before);
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      Layout wanted;
      if (const auto label = labels_.find(node.output(i)); label != labels_.end()) {
        wanted.set(label->second);
      }
      price.bytes += steps_bytes(*node.output(i), output_layout(map, i, pointer(split), axis_),
                                 wanted, &after);
    }
    const double ranks = mesh_.size(axis_);
    const CostRates& rates = options_.rates;
    price.seconds = price.bytes / ranks / rates.bytes_per_second +
                    static_cast<double>(before.size() + after.size()) * rates.seconds_per_exchange +
                    size_(node_flops(node)) * largest_share(split) / rates.flops_per_second +
                    weight_bytes(node, map, split) / rates.memory_bytes_per_second +
                    table_bytes(node, map, split) * rates.seconds_per_byte_held;
    return price;
  }

  // That a rank keeps of a table which it looks rows up in, and so never reads as a whole. Where a
  // product reads the same table, pieces of its rows are there anyway.
  double table_bytes(const Node& node, const FactorMap& map, const Candidate& split) const {
    if (!seeds_.split_weights.contains(&node) || node.op().flops != nullptr) return 0;
    const std::size_t weight = weight_use(node, map)->weight;
    const Value& table = *node.input(weight);
    const double bytes = static_cast<double>(table.constant().byte_size());
    const auto held = split ? split_under(map, map.inputs[weight], *split, axis_) : std::nullopt;
    const bool is_shared =
        std::any_of(table.users().begin(), table.users().end(),
                    [](const Node* user) { return user->op().flops != nullptr; });
    if (!held) return bytes;
    return is_shared && held->dim == 0 ? 0 : bytes * largest_share(split);
  }

  // That the busiest rank reads to do its share; of an embedding, only rows that are asked for.
  double weight_bytes(const Node& node, const FactorMap& map, const Candidate& split) const {
    if (node.op().flops == nullptr) return 0;
    double bytes = 0;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr || !input->is_constant()) continue;
      const bool is_split = split && split_under(map, map.inputs[i], *split, axis_).has_value();
      bytes += static_cast<double>(input->constant().byte_size()) *
               (is_split ? largest_share(split) : 1);
    }
    return bytes;
  }

  // Of the node's work, at the rank that has most.
  double largest_share(const Candidate& split) const {
    if (!split) return 1;
    const double units = std::max(1.0, size_(split->units));
    const double stands = units * split->replicas;
    const double ranks = mesh_.size(axis_);
    return static_cast<double>(static_cast<std::int64_t>((stands + ranks - 1) / ranks)) / units;
  }

  // What a value was cut out of; the value itself otherwise.
  static const Value* source_of(const Value& value) {
    const Node* node = value.producer();
    const bool is_cut = node != nullptr && (node->type() == "Slice" || node->type() == "Split");
    return is_cut ? node->input(0) : &value;
  }

  // Some other part that is cut out of the same value is asked for along another dimension.
  bool is_turned_elsewhere(const Value& value) const {
    const Value* source = source_of(value);
    if (source == &value) return false;
    for (const Node* cut : source->users()) {
      if (cut->type() != "Slice" && cut->type() != "Split") continue;
      for (const Value* part : cut->outputs()) {
        const auto label = labels_.find(part);
        if (part == &value || label == labels_.end() || part->users().empty()) continue;
        const Layout made = versions(*part).front();
        if (made.splits.size() == 1 && made.splits[0].dim != label->second.dim) return true;
      }
    }
    return false;
  }

  std::vector<Layout> versions(const Value& value) const {
    const auto it = versions_.find(&value);
    return it == versions_.end() ? std::vector<Layout>{Layout()} : it->second;
  }

  void keep_versions(const Node& node, const Candidate& split) {
    const FactorMap& map = maps_.at(&node);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr) continue;
      std::vector<Layout> known = versions(*input);
      Layout needed = input_layout(map, i, pointer(split), axis_);
      if (std::find(known.begin(), known.end(), needed) != known.end()) continue;
      known.push_back(std::move(needed));
      versions_[input] = std::move(known);
    }
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      std::vector<Layout>& known = versions_[node.output(i)];
      known = {output_layout(map, i, pointer(split), axis_)};
      // The model's outputs come together anyway.
      if (is_graph_output(graph_, node.output(i)) && !known[0].is_replicated())
        known.emplace_back();
    }
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const Mesh& mesh_;
  const int axis_;
  const FactorMaps& maps_;
  const Labels& labels_;
  const AxisSeeds& seeds_;
  const AxisConstraints& constraints_;
  SizeEstimate size_;
  std::map<const Value*, std::vector<Layout>> versions_;  // absent: whole
};

}  // namespace

bool splits_heads(const Node& attention, const FactorMap& map, const FactorSplit& split,
                  int ranks) {
  const int heads = 3 - token_dimension(attention);
  const auto& q_heads = map.inputs[0][static_cast<std::size_t>(heads)];
  if (q_heads.empty() || split.factors[0] != q_heads[0]) return false;
  return !split.units.is_constant() || split.units.constant() >= ranks;
}

Result<Sharding> choose_splits(const Graph& graph, const CompileOptions& options, int axis,
                               const FactorMaps& maps, const Labels& labels, const AxisSeeds& seeds,
                               const AxisConstraints& constraints) {
  return SplitChooser(graph, options, axis, maps, labels, seeds, constraints).run();
}

}  // namespace tutti
