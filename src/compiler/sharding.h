// Which factor of each node is split over a mesh axis, and what that asks of its operands.
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
// `segments` and `grains`: runs of units that are cut each by itself, as in Split. With the whole
// of a FactorSum as the factor, its parts are split, each by itself; the segments are those parts,
// or finer.
//
// Two factors, such as (g r) of grouped attention with units |g| * c: an operand that holds both is
// cut into |g| * c units; one that holds g alone is cut into |g| units of c replicas each.
struct FactorSplit {
  std::vector<int> factors;
  Dim units;
  int replicas = 1;
  std::vector<Dim> segments = {};
  std::vector<Dim> grains = {};
  bool operator==(const FactorSplit&) const = default;
};

// How the nodes of a graph share their work along one mesh axis. A node that is missing: all ranks
// along the axis do the same work.
struct Sharding {
  int axis = 0;
  std::map<const Node*, FactorSplit> nodes;
  // At typical sizes: of the rank that has most to do, and what all ranks send for the operands.
  double busiest_flops = 0;
  double sent_bytes = 0;

  const FactorSplit* find(const Node& node) const {
    const auto it = nodes.find(&node);
    return it == nodes.end() ? nullptr : &it->second;
  }
};

// The segments that make up each part of `sum`, in order; nullopt: a part ends inside a segment.
std::optional<std::vector<std::vector<Dim>>> segments_of_parts(const FactorMap& map,
                                                               const FactorSum& sum,
                                                               const std::vector<Dim>& segments);

// The segments of one part with the grain of each.
struct SegmentRun {
  std::vector<Dim> segments;
  std::vector<Dim> grains;
};
std::optional<std::vector<SegmentRun>> runs_of_parts(const FactorMap& map, const FactorSum& sum,
                                                     const FactorSplit& split);

// Grains that are all 1 are left out.
void drop_single_grains(std::vector<Dim>* grains);

// The factor map of a node. An operator without a rule has every dimension whole.
FactorMap factors_of(const Node& node);

// The factor split that gives an operand this split, where its dimension's factors allow one.
std::optional<FactorSplit> factor_split_from(const FactorMap& map, const DimFactors& operand,
                                             const Split& split, int ranks);

// How an operand is split under a factor split; nullopt where it holds none of the factors.
std::optional<Split> split_under(const FactorMap& map, const DimFactors& operand,
                                 const FactorSplit& split, int axis);

// Of what the windows read, evenly shared out; other splits as they are.
Split without_window(const Split& split);

// A split is possible: its factors are parallel (or one reduction) and stand in front wherever they
// stand, one in segments alone.
bool is_possible(const FactorMap& map, const FactorSplit& split);

// Possible, and the node's attributes can say what its piece is: a number of groups is the same on
// all of `ranks` ranks.
bool is_possible_for(const Node& node, const FactorMap& map, const FactorSplit& split, int ranks);

bool is_reduction(const FactorMap& map, const FactorSplit& split);

// All splits along one parallel factor or one reduction, and those that add query groups to
// key/value groups (g, then (g r) with c units for each g) for `ranks` ranks.
std::vector<FactorSplit> possible_splits(const FactorMap& map, int ranks);

// What a node reads and makes when `split` (null: none) is over `axis`.
Layout input_layout(const FactorMap& map, std::size_t input, const FactorSplit* split, int axis);
Layout output_layout(const FactorMap& map, std::size_t output, const FactorSplit* split, int axis);

}  // namespace tutti
