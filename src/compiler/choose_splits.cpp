#include <algorithm>

#include "compiler/conversion.h"
#include "compiler/cost.h"
#include "compiler/layout.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

struct Price {
  double bytes = 0;  // that all ranks together send
  double seconds = 0;
};

// Layouts here have one mesh axis; the others cut all candidates' sizes alike.
class SplitChooser {
 public:
  SplitChooser(const Graph& graph, const CompileOptions& options, int axis, const FactorMaps& maps,
               const Labels& labels, const AxisSeeds& seeds, Sharding* sharding)
      : graph_(graph),
        options_(options),
        mesh_(options.mesh),
        axis_(axis),
        maps_(maps),
        labels_(labels),
        seeds_(seeds),
        sharding_(sharding),
        size_(typical_sizes(graph, options)) {}

  void run() {
    for (const auto& node : graph_.nodes()) {
      const auto split = choose(*node);
      keep_versions(*node, split);
      if (split) sharding_->nodes[node.get()][axis_] = *split;
    }
  }

 private:
  using Candidate = std::optional<FactorSplit>;

  std::optional<FactorSplit> choose(const Node& node) {
    const FactorMap& map = maps_.at(&node);
    const NodeSharding taken = taken_by_others(node);
    const int ranks = mesh_.size(axis_);
    const Candidate follow = split_from_labels(node, map, labels_, taken, ranks);
    if (follow && price(node, map, follow).bytes == 0) return follow;
    if (!follow && price(node, map, {}).bytes == 0) return {};

    std::vector<Candidate> candidates;
    const std::vector<FactorSplit> possible = possible_splits(map, taken, ranks);
    for (const FactorSplit& split : possible) {
      const bool is_preferred =
          (seeds_.prefer_heads.contains(&node) && splits_heads(node, map, split)) ||
          (seeds_.prefer_queries.contains(&node) && splits_queries(node, map, split));
      if (is_preferred) candidates.emplace_back(split);
    }
    if (candidates.empty()) {
      candidates.emplace_back(std::nullopt);
      if (follow) candidates.push_back(follow);
      candidates.insert(candidates.end(), possible.begin(), possible.end());
    }
    Candidate best;
    double best_seconds = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double seconds = price(node, map, candidates[i]).seconds;
      if (i > 0 && seconds >= best_seconds) continue;
      best = candidates[i];
      best_seconds = seconds;
    }
    return best;
  }

  // All ranks get heads of their own (or copies of key/value heads for queries of their own).
  bool splits_heads(const Node& node, const FactorMap& map, const FactorSplit& split) const {
    const int heads = 3 - token_dimension(node);
    const auto& q_heads = map.inputs[0][static_cast<std::size_t>(heads)];
    if (q_heads.empty() || split.factors[0] != q_heads[0]) return false;
    return !split.units.is_constant() || split.units.constant() >= mesh_.size(axis_);
  }

  static bool splits_queries(const Node& node, const FactorMap& map, const FactorSplit& split) {
    return split.factors == map.inputs[0][static_cast<std::size_t>(token_dimension(node))];
  }

  NodeSharding taken_by_others(const Node& node) const {
    const auto it = sharding_->nodes.find(&node);
    NodeSharding taken = it == sharding_->nodes.end() ? NodeSharding() : it->second;
    taken.erase(axis_);
    return taken;
  }

  NodeSharding alone(const Candidate& split) const {
    NodeSharding sharding;
    if (split) sharding.emplace(axis_, *split);
    return sharding;
  }

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

  Price price(const Node& node, const FactorMap& map, const Candidate& split) const {
    const NodeSharding sharding = alone(split);
    Price price;
    std::set<StepKind> before;
    std::set<StepKind> after;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr) continue;
      const Layout needed = input_layout(map, i, sharding);
      double best = -1;
      std::set<StepKind> best_kinds;
      for (const Layout& version : versions(*input)) {
        std::set<StepKind> kinds;
        const double bytes = steps_bytes(*input, version, needed, &kinds);
        if (best >= 0 && bytes >= best) continue;
        best = bytes;
        best_kinds = std::move(kinds);
      }
      price.bytes += best;
      before.merge(best_kinds);
    }
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      Layout wanted;
      if (const auto label = labels_.find(node.output(i)); label != labels_.end()) {
        wanted.set(label->second);
      }
      price.bytes += steps_bytes(*node.output(i), output_layout(map, i, sharding), wanted, &after);
    }
    const double ranks = mesh_.size(axis_);
    const CostRates& rates = options_.rates;
    price.seconds = price.bytes / ranks / rates.bytes_per_second +
                    static_cast<double>(before.size() + after.size()) * rates.seconds_per_exchange +
                    size_(node_flops(node)) * largest_share(split) / rates.flops_per_second;
    return price;
  }

  // Of the node's work, at the rank that has most.
  double largest_share(const Candidate& split) const {
    if (!split) return 1;
    const double units = std::max(1.0, size_(split->units));
    const double stands = units * split->replicas;
    const double ranks = mesh_.size(axis_);
    return static_cast<double>(static_cast<std::int64_t>((stands + ranks - 1) / ranks)) / units;
  }

  std::vector<Layout> versions(const Value& value) const {
    const auto it = versions_.find(&value);
    return it == versions_.end() ? std::vector<Layout>{Layout()} : it->second;
  }

  void keep_versions(const Node& node, const Candidate& split) {
    const FactorMap& map = maps_.at(&node);
    const NodeSharding sharding = alone(split);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr) continue;
      std::vector<Layout> known = versions(*input);
      Layout needed = input_layout(map, i, sharding);
      if (std::find(known.begin(), known.end(), needed) != known.end()) continue;
      known.push_back(std::move(needed));
      versions_[input] = std::move(known);
    }
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      versions_[node.output(i)] = {output_layout(map, i, sharding)};
    }
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const Mesh& mesh_;
  const int axis_;
  const FactorMaps& maps_;
  const Labels& labels_;
  const AxisSeeds& seeds_;
  Sharding* sharding_;
  SizeEstimate size_;
  std::map<const Value*, std::vector<Layout>> versions_;  // absent: whole
};

}  // namespace

void choose_splits(const Graph& graph, const CompileOptions& options, int axis,
                   const FactorMaps& maps, const Labels& labels, const AxisSeeds& seeds,
                   Sharding* sharding) {
  SplitChooser(graph, options, axis, maps, labels, seeds, sharding).run();
}

}  // namespace tutti
