// Which factor of each node is split over which mesh axis, and what that asks of its operands.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/factor_map.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"

namespace tutti {

// A node's work cut along `factors` (major to minor; mostly one) into `units` equal, contiguous
// units that the ranks share as in Split.
//
// Two factors, such as (g r) of grouped attention with units |g| * c: an operand that holds both is
// cut into |g| * c units; one that holds g alone is cut into |g| units of c replicas each.
struct FactorSplit {
  std::vector<int> factors;
  Dim units;
  int replicas = 1;
  bool operator==(const FactorSplit&) const = default;
};

// By mesh axis. An axis that is missing: all its ranks do the same work.
using NodeSharding = std::map<int, FactorSplit>;

struct Sharding {
  // Where propagation would like a value to be kept; the partition pass goes by the nodes.
  std::map<const Value*, Layout> preferred;
  std::map<const Node*, NodeSharding> nodes;
};

// The factor map of a node. An operator without a rule has every dimension whole.
FactorMap factors_of(const Node& node);

// The factor split that gives an operand this split, where its dimension's factors allow one.
std::optional<FactorSplit> factor_split_from(const FactorMap& map, const DimFactors& operand,
                                             const Split& split, int ranks);

// How an operand is split under a factor split; nullopt where it holds none of the factors.
std::optional<Split> split_under(const FactorMap& map, const DimFactors& operand,
                                 const FactorSplit& split, int axis);

// A split is possible: its factors are parallel (or one reduction), stand in front wherever they
// stand, and no dimension of any operand is split over two axes (`taken` holds the other axes).
bool is_possible(const FactorMap& map, const FactorSplit& split, const NodeSharding& taken);

bool is_reduction(const FactorMap& map, const FactorSplit& split);

// All splits along one parallel factor or one reduction, and those that add query groups to
// key/value groups (g, then (g r) with c units for each g) for `ranks` ranks.
std::vector<FactorSplit> possible_splits(const FactorMap& map, const NodeSharding& taken,
                                         int ranks);

// What a node reads and makes under all its splits.
Layout input_layout(const FactorMap& map, std::size_t input, const NodeSharding& sharding);
Layout output_layout(const FactorMap& map, std::size_t output, const NodeSharding& sharding);

}  // namespace tutti
