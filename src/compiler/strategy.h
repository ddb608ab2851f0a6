// Strategies: where propagation starts on a mesh axis, and what it prefers. Nothing else in the
// compiler knows them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/compile.h"

namespace tutti {

// Tokens of an attention's queries and keys that are in pieces on the ranks and change from call to
// call. A prompt's are whole, or exchanged once a prompt.
struct TravellingRows {
  Dim queries = 0;
  Dim keys = 0;
  bool has_values = true;  // of its own: no attention before it reads the same
  // The mask is a pair representation, made where its queries are: so many heads of it travel to
  // where heads are. 0: it is made anywhere.
  Dim bias_heads = 0;
};

struct AxisSeeds {
  // Slices and Pads along a split dimension exchange rows; else they work on whole dimensions, or
  // on segments.
  bool moves_rows = false;
  std::vector<std::pair<const Value*, Split>> labels;  // in order; earlier ones win
  // Those that count where the others, spread along factors, have said nothing.
  std::vector<std::pair<const Value*, Split>> late_labels;
  // Attentions that exchange tokens for heads when their keys turn out to be split along tokens.
  std::set<const Node*> prefer_heads;
  // Attentions that are to keep their queries and get all keys.
  std::set<const Node*> prefer_queries;
  // Nodes that every rank does whole, so that their operands are exchanged one by one.
  std::set<const Node*> whole;
  // The attentions of "ulysses".
  std::map<const Node*, TravellingRows> attentions;
  // Products of which both operands are made of tokens: what moves least decides, as for
  // attentions.
  std::set<const Node*> least_bytes;
  // Nodes with a weight of which each rank should hold a piece. Where operands ask for a split of
  // the weight, no other split or none is considered.
  std::set<const Node*> split_weights;
};

// "tensor", "cfg", "ulysses" or "none"; the error lists them.
Result<std::string> strategy_of(const CompileOptions& options, int axis);

// The mesh axis that takes `strategy` when nothing else is said: "cp" for "ulysses". The strategy's
// own name where there is none.
std::string usual_axis(std::string_view strategy);

// The axes that strategies take by default: cfg, tp, cp, ..: what a mesh may consist of.
std::vector<std::string> usual_axes();

// Axes with more than one rank, in the order in which they distribute the graph: those whose splits
// have to be outermost first. Weights are cut by whole heads, then come batch elements and what is
// seeded by hand, and tokens last, which turn into heads and back inside the pieces of the others.
// Strategies are known to exist.
std::vector<int> distribution_order(const CompileOptions& options);

// Seeds of `axis`: those given by hand, then those of its strategy.
Result<AxisSeeds> seeds_for_axis(const Graph& graph, const CompileOptions& options, int axis);

// Splits weights: of products that feed heads of an attention and of the first products of MLPs by
// output features, of those that follow by the sum. tensor.cpp.
void seed_tensor(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds);

// Splits the batch.
void seed_cfg(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds);

// Splits one dimension of space or time, in the results of all convolutions: that of a seed by
// hand, or the cheapest one. spatial.cpp.
struct SpatialDimension {
  std::size_t rank = 0;  // of the convolutions' operands
  std::size_t dim = 0;
};
// Null: nothing is convolved along a dimension that could be split, or a seed by hand has split
// something else.
std::optional<SpatialDimension> spatial_dimension(const Graph& graph, const CompileOptions& options,
                                                  int axis);
void seed_spatial(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds);

// Splits tokens: the queries and results of every attention, or, where an attention joins sequences
// of several sources, each of those by itself and the heads of the joined one.
void seed_ulysses(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds);

// All names of axes and inputs in the options exist. Seeds name values of the simplified graph and
// are checked where they are used.
Status check_options(const Graph& graph, const CompileOptions& options);

// The batch size: dimension 0 that most model inputs share. Null: there is none.
std::optional<Dim> batch_size(const Graph& graph);

// The options' typical sizes; a symbolic batch size that is missing there is 1.
SymbolMap typical_sizes(const Graph& graph, const CompileOptions& options);

// Index of the token dimension of q in an Attention.
int token_dimension(const Node& attention);

}  // namespace tutti
