// Layout propagation: from seeds to a split for every node, one mesh axis after the other.
#pragma once

#include <set>

#include "compiler/compile.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {

// Two steps an axis. Labels spread from the seeds along factors, forwards and backwards, to a fixed
// point: a label says which dimension of a value the axis would split. Then each node takes the
// split that its labelled operands ask for where that moves nothing, and the cheapest one
// otherwise.
Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options);

using FactorMaps = std::map<const Node*, FactorMap>;
using Labels = std::map<const Value*, Split>;

// The first step: labels of one axis. `sharding` holds the axes before.
Labels spread_labels(const Graph& graph, const Mesh& mesh, int axis, const FactorMaps& maps,
                     const Sharding& sharding,
                     const std::vector<std::pair<const Value*, Split>>& seeds);

// The second step: adds this axis's splits to sharding->nodes.
void choose_splits(const Graph& graph, const CompileOptions& options, int axis,
                   const FactorMaps& maps, const Labels& labels, const AxisSeeds& seeds,
                   Sharding* sharding);

// The split that a node's labels ask for: a parallel factor before a reduction, inputs before
// outputs, earlier operands before later ones.
std::optional<FactorSplit> split_from_labels(const Node& node, const FactorMap& map,
                                             const Labels& labels, const NodeSharding& taken,
                                             int ranks);

}  // namespace tutti
