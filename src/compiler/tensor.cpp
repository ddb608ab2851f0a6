// Tensor parallelism: weights are cut, activations between two products with them. Heads of an
// attention and the inner features of an MLP are split from the product that makes them to the one
// that sums over them. Megatron-LM (https://arxiv.org/abs/1909.08053) does the same by hand.
#include <algorithm>
#include <map>

#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/weight_use.h"

namespace tutti {
namespace {

using Place = std::pair<const Value*, int>;  // a value and one of its dimensions

// The factor that a dimension starts with; -1: it has size 1 or broadcasts.
int leading_factor(const FactorMap& map, const std::vector<int>& dim) {
  for (const int factor : dim) {
    if (!map.factors[static_cast<std::size_t>(factor)].size.is(1)) return factor;
  }
  return -1;
}

int dimension_of(const FactorMap& map, const DimFactors& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (leading_factor(map, operand[d]) == factor) return static_cast<int>(d);
  }
  return -1;
}

// Where the pieces of a dimension come from.
struct Sources {
  std::vector<const Node*> products;    // whose output features they are
  std::vector<const Node*> attentions;  // whose heads they are
  bool has_others = false;              // or something that is there whole
};

class SourceFinder {
 public:
  Sources find(const Place& at) {
    visit(at);
    return std::move(found_);
  }

 private:
  void visit(const Place& at) {
    const auto& [value, dim] = at;
    if (value->is_constant() || !seen_.insert(at).second) return;
    const Node* node = value->producer();
    if (node == nullptr) {
      found_.has_others = true;
      return;
    }
    if (node->type() == "Attention" && dim == 3 - token_dimension(*node)) {
      found_.attentions.push_back(node);
      return;
    }
    const FactorMap map = factors_of(*node);
    const auto output = static_cast<std::size_t>(value->producer_output());
    const int factor = leading_factor(map, map.outputs[output][static_cast<std::size_t>(dim)]);
    const auto weight = weight_use(*node, map);
    if (weight && weight->feature == factor) {
      found_.products.push_back(node);
      return;
    }
    const bool is_whole =
        factor < 0 || map.factors[static_cast<std::size_t>(factor)].role == FactorRole::kWhole;
    bool continues = false;
    for (std::size_t i = 0; !is_whole && i < node->inputs().size(); ++i) {
      if (node->input(i) == nullptr) continue;
      const int held = dimension_of(map, map.inputs[i], factor);
      if (held < 0) continue;
      continues = true;
      visit({node->input(i), held});
    }
    found_.has_others |= !continues;
  }

  std::set<Place> seen_;
  Sources found_;
};

// Pieces of a dimension are all that its users need, up to products that sum over it.
class SumFinder {
 public:
  explicit SumFinder(const Graph& graph)
      : outputs_(graph.outputs().begin(), graph.outputs().end()) {}

  bool feeds_only_sums(const Place& at) {
    const auto [known, is_new] = known_.emplace(at, true);
    if (!is_new) return known->second;
    const auto& [value, dim] = at;
    const bool does = !outputs_.contains(value) &&
                      std::all_of(value->users().begin(), value->users().end(),
                                  [&](const Node* user) { return is_fed(*user, at); });
    return known_[at] = does;
  }

 private:
  bool is_fed(const Node& user, const Place& at) {
    const FactorMap map = factors_of(user);
    const auto weight = weight_use(user, map);
    for (std::size_t i = 0; i < user.inputs().size(); ++i) {
      if (user.input(i) != at.first) continue;
      const int factor = leading_factor(map, map.inputs[i][static_cast<std::size_t>(at.second)]);
      if (factor < 0) return false;
      if (weight && weight->sum == factor) continue;
      if (map.factors[static_cast<std::size_t>(factor)].role != FactorRole::kParallel) return false;
      for (std::size_t o = 0; o < user.outputs().size(); ++o) {
        const int held = dimension_of(map, map.outputs[o], factor);
        if (held < 0 || !feeds_only_sums({user.output(o), held})) return false;
      }
    }
    return true;
  }

  const std::set<const Value*> outputs_;
  std::map<Place, bool> known_;
};

// Units of the query heads: whole heads in the ratio of queries to keys, enough that every rank
// has some where that is possible.
std::optional<Dim> head_units(const Node& attention, std::size_t heads, int ranks) {
  const Dim& query = attention.input(0)->shape()[heads];
  const Dim& groups = attention.input(1)->shape()[heads];
  if (!query.is_constant() || !groups.is_constant() || groups.is(0)) return std::nullopt;
  const std::int64_t size = query.constant() / groups.constant();
  for (std::int64_t copies = 1; copies <= size; ++copies) {
    const std::int64_t units = groups.constant() * copies;
    if (size % copies == 0 && units >= ranks) return Dim(units);
  }
  return query;
}

// Whether the heads are split.
bool seed_heads(const Node& attention, const Mesh& mesh, int axis, AxisSeeds* seeds) {
  const int heads = 3 - token_dimension(attention);
  const auto at = static_cast<std::size_t>(heads);
  const bool has_weights = std::any_of(
      attention.inputs().begin(), attention.inputs().begin() + 3, [&](const Value* input) {
        return !SourceFinder().find({input, heads}).products.empty();
      });
  const auto units = head_units(attention, at, mesh.size(axis));
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
    const Sources sources = SourceFinder().find({second.input(weight.data), dim});
    const bool is_split =
        !sources.has_others &&
        std::all_of(sources.attentions.begin(), sources.attentions.end(),
                    [&](const Node* attention) { return attentions_.contains(attention); }) &&
        std::all_of(sources.products.begin(), sources.products.end(), [&](const Node* first) {
          return !seconds_.contains(first) &&
                 sums_.feeds_only_sums({first->output(), feature_split(*first, axis_).dim});
        });
    if (!is_split || (sources.products.empty() && sources.attentions.empty())) return;
    seconds_.insert(&second);
    for (const Node* first : sources.products) {
      seeds_->labels.emplace_back(first->output(), feature_split(*first, axis_));
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

void seed_tensor(const Graph& graph, const Mesh& mesh, int axis, AxisSeeds* seeds) {
  TensorSeeder(graph, mesh, axis, seeds).run();
}

}  // namespace tutti
