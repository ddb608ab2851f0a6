// Strategies: where propagation starts on a mesh axis, and what it prefers. Nothing else in the
// compiler knows them.
#pragma once

#include <set>
#include <utility>

#include "compiler/compile.h"

namespace tutti {

struct AxisSeeds {
  std::vector<std::pair<const Value*, Split>> labels;  // in order; earlier ones win
  // Attentions that exchange tokens for heads when their keys turn out to be split along tokens.
  std::set<const Node*> prefer_heads;
  // Attentions that are to keep their queries and get all keys.
  std::set<const Node*> prefer_queries;
};

// "ulysses", "cfg" or "none"; the error lists them.
Result<std::string> strategy_of(const CompileOptions& options, int axis);

// Seeds of `axis`: those given by hand, then those of its strategy.
Result<AxisSeeds> seeds_for_axis(const Graph& graph, const CompileOptions& options, int axis);

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
