// Rules of the simplify pass that have a file of their own. Each gives a value that equals the
// node's only output, made in front of the builder's insertion point, or null when it does not
// apply; then it has made nothing.
#pragma once

#include "graph/builder.h"

namespace tutti {

// Gathers and scatters whose indexes are constant and run through a few stretches of an axis, and
// choices by constant masks of such stretches, as Slice and Concat.
Value* slices_for_indexes(GraphBuilder& b, const Node& node);

// A Slice of what was joined, filled or repeated: the operand itself, or a smaller one. The cut
// moves up through nodes that work on each row of the axis alone, where all users cut there.
Value* value_before_cut(GraphBuilder& b, const Node& slice);
// The same as for a Slice for every output of a Split; empty when one of them stays.
std::vector<Value*> values_before_split(GraphBuilder& b, const Node& split);

// A Concat in another one along its axis, and one of neighbouring slices.
Value* merged_concat(GraphBuilder& b, const Graph& graph, const Node& concat);

}  // namespace tutti
