// Where features come from and go to, between products with weights: what the strategy `tensor`
// goes by.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/factor_map.h"
#include "graph/graph.h"

namespace tutti {

using Place = std::pair<const Value*, int>;  // a value and one of its dimensions

// The factor that a dimension starts with; -1: it has size 1 or broadcasts.
int leading_factor(const FactorMap& map, const std::vector<int>& dim);

// The dimension of an operand that starts with the factor; -1: none does.
int dimension_of(const FactorMap& map, const DimFactors& operand, int factor);

// Where the pieces of a dimension come from.
struct FeatureSources {
  std::vector<const Node*> products;  // whose output features they are
  std::vector<Dim> units;             // by product: how many pieces the way to here allows, heads
  // By product: the parts that its features are cut into on the way (gate and value of one
  // product), each shared out by itself. Empty: they are not.
  std::vector<std::vector<Dim>> parts;
  std::vector<const Node*> attentions;  // whose heads they are
  std::vector<const Node*> norms;       // that normalise over the dimension, and so need it whole
  bool meets_in_heads = false;          // products of each other, head by head, on the way
  bool has_others = false;              // or anything else that is there whole
};
FeatureSources feature_sources(const Place& at);

// Tells whether pieces of a dimension are all that its users need, up to products that sum over it.
class SumFinder {
 public:
  explicit SumFinder(const Graph& graph)
      : outputs_(graph.outputs().begin(), graph.outputs().end()) {}

  bool feeds_only_sums(const Place& at);

 private:
  bool is_fed(const Node& user, const Place& at);

  const std::set<const Value*> outputs_;
  std::map<Place, bool> known_;
};

}  // namespace tutti
