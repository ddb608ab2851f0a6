// Layout propagation along one mesh axis: from seeds to a split for every node.
#pragma once

#include "compiler/compile.h"
#include "compiler/constraints.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {

// Two steps. Labels spread from the seeds along factors, forwards and backwards, to a fixed
// point: a label says which dimension of a value the axis would split. Then each node takes the
// split that its labelled operands ask for where that moves nothing, and the cheapest one
// otherwise.
// `graph` may hold exchanges of other axes; they follow their rules as any node does.
// Errors: seeds that name no value, constraints that contradict each other or a rule.
// `choices`: how the strategy's attentions are split is appended; may be null.
Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options, int axis,
                                   const NameMap& whole_names = {},
                                   std::vector<AttentionChoice>* choices = nullptr);

using FactorMaps = std::map<const Node*, FactorMap>;
using Labels = std::map<const Value*, Split>;

// The first step.
Labels spread_labels(const Graph& graph, const Mesh& mesh, int axis, const FactorMaps& maps,
                     const AxisSeeds& seeds);

// The second step.
Result<Sharding> choose_splits(const Graph& graph, const CompileOptions& options, int axis,
                               const FactorMaps& maps, const Labels& labels, const AxisSeeds& seeds,
                               const AxisConstraints& constraints);

// What many nodes need whole and is made of pieces of one value is made of the whole of it where
// one exchange instead of many is worth the work that all ranks do then.
void gather_sooner(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
                   Sharding* sharding);

// What is made in pieces of whole values by light work and then gathered is made of the whole,
// where that is cheaper.
void stay_whole(const Graph& graph, const CompileOptions& options, const FactorMaps& maps,
                Sharding* sharding);

// What comes of seeds, without the options' constraints on names of other axes; nullopt: it
// contradicts something.
std::optional<Sharding> outcome_of(const Graph& graph, const CompileOptions& options, int axis,
                                   const FactorMaps& maps, const AxisSeeds& seeds);

// Less work for the busiest rank counts first, bytes among those that nearly agree.
bool is_better(const Sharding& a, const Sharding& b);

// The factor maps as a strategy takes them.
FactorMaps factor_maps(const Graph& graph, bool moves_rows);

// The split that a node's labels ask for: a parallel factor before the parts of a concatenation and
// those before a reduction, inputs before outputs, earlier operands before later ones.
std::optional<FactorSplit> split_from_labels(const Node& node, const FactorMap& map,
                                             const Labels& labels, int ranks);

// The split gives every one of `ranks` ranks heads of the attention for itself (or copies of
// key/value heads for queries of its own).
bool splits_heads(const Node& attention, const FactorMap& map, const FactorSplit& split, int ranks);

}  // namespace tutti
