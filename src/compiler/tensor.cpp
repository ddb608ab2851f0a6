// Tensor parallelism: weights are cut, activations between two products with them. Heads of an
// attention and the inner features of an MLP are split from the product that makes them to the one
// that sums over them. Megatron-LM (https://arxiv.org/abs/1909.08053) does the same by hand.
#include <algorithm>

#include "compiler/attention_exchange.h"
#include "compiler/feature_sources.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/weight_use.h"

namespace tutti {
namespace {

// Units of the query heads: whole heads in the ratio of queries to keys, enough that every rank
// has some where that is possible. Larger units that leave the busiest rank as many query heads are
// better even if some rank has none then: nobody makes and holds a key head twice.
std::optional<Dim> units_of_heads(const Node& attention, std::size_t heads, int ranks) {
  const Dim& query = attention.input(0)->shape()[heads];
  const Dim& groups = attention.input(1)->shape()[heads];
  if (!query.is_constant() || !groups.is_constant() || groups.is(0)) return std::nullopt;
  const auto of_busiest = [&](std::int64_t units) {
    return (units + ranks - 1) / ranks * (query.constant() / units);
  };
  const std::int64_t units = head_units(attention, ranks).value_or(query).constant();
  for (std::int64_t fewer = groups.constant(); fewer < units; fewer += groups.constant()) {
    const bool is_whole = query.constant() % fewer == 0;
    if (is_whole && of_busiest(fewer) <= of_busiest(units)) return Dim(fewer);
  }
  return Dim(units);
}

// Whether the heads are split.
bool seed_heads(const Node& attention, const Mesh& mesh, int axis, AxisSeeds* seeds) {
  const int heads = 3 - token_dimension(attention);
  const auto at = static_cast<std::size_t>(heads);
  const bool has_weights = std::any_of(attention.inputs().begin(), attention.inputs().begin() + 3,
                                       [&](const Value* input) {
                                         return !feature_sources({input, heads}).products.empty();
                                       });
  const auto units = units_of_heads(attention, at, mesh.size(axis));
  if (!has_weights || !units || units->is(1)) return false;
  for (const Value* value : {attention.input(0), attention.output()}) {
    seeds->labels.emplace_back(value, Split{heads, axis, *units, 1});
  }
  return true;
}

// Output features of a product with a weight.
Split feature_split(const Node& product, int axis) {
  const FactorMap map = factors_of(product);
  const int feature = weight_use(product, map)->feature;
  const Dim& size = map.factors[static_cast<std::size_t>(feature)].size;
  return Split{dimension_of(map, map.outputs[0], feature), axis, size, 1};
}

// Finds the pairs of products between which features are split, in the order of the graph.
class TensorSeeder {
 public:
  TensorSeeder(const Graph& graph, const Mesh& mesh, int axis, AxisSeeds* seeds)
      : graph_(graph), mesh_(mesh), axis_(axis), seeds_(seeds), sums_(graph) {}

  void run() {
    for (const auto& node : graph_.nodes()) {
      if (node->type() == "Attention" && seed_heads(*node, mesh_, axis_, seeds_)) {
        attentions_.insert(node.get());
      }
      const FactorMap map = factors_of(*node);
      const auto weight = weight_use(*node, map);
      if (!weight) continue;
      seeds_->split_weights.insert(node.get());
      if (weight->sum >= 0) pair_up(*node, map, *weight);
    }
  }

 private:
  // All that `second` sums over has to come from products that have nobody else to serve, or from
  // split heads: otherwise something would have to be gathered.
  void pair_up(const Node& second, const FactorMap& map, const WeightUse& weight) {
    const int dim = dimension_of(map, map.inputs[weight.data], weight.sum);
    if (dim < 0) return;
    const FeatureSources sources = feature_sources({second.input(weight.data), dim});
    const bool is_split =
        !sources.has_others && sources.norms.empty() &&
        std::all_of(sources.attentions.begin(), sources.attentions.end(),
                    [&](const Node* attention) { return attentions_.contains(attention); }) &&
        std::all_of(sources.products.begin(), sources.products.end(), [&](const Node* first) {
          return !seconds_.contains(first) &&
                 sums_.feeds_only_sums({first->output(), feature_split(*first, axis_).dim});
        });
    if (!is_split || (sources.products.empty() && sources.attentions.empty())) return;
    seconds_.insert(&second);
    seed_features(sources);
  }

  // Heads first: features that meet them (gates) are cut as they are.
  void seed_features(const FeatureSources& sources) {
    std::vector<Split> splits;
    std::vector<bool> has_heads;
    for (std::size_t i = 0; i < sources.products.size(); ++i) {
      Split& split = splits.emplace_back(feature_split(*sources.products[i], axis_));
      const Dim& units = sources.units[i];
      const bool is_enough = units.is_constant() && units.constant() >= mesh_.size(axis_);
      split.segments = sources.parts[i];
      has_heads.push_back(is_enough && units != split.units && split.segments.empty());
      if (has_heads.back()) split.units = units;
    }
    const bool meets_heads = !sources.attentions.empty() ||
                             std::find(has_heads.begin(), has_heads.end(), true) != has_heads.end();
    for (std::size_t i = 0; i < splits.size(); ++i) {
      auto* labels = meets_heads && !has_heads[i] ? &seeds_->late_labels : &seeds_->labels;
      labels->emplace_back(sources.products[i]->output(), std::move(splits[i]));
    }
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const int axis_;
  AxisSeeds* seeds_;
  SumFinder sums_;
  std::set<const Node*> attentions_;  // with split heads
  std::set<const Node*> seconds_;
};

}  // namespace

void seed_tensor(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds) {
  TensorSeeder(graph, options.mesh, axis, seeds).run();
}

}  // namespace tutti
