// An exchange and what computes its operands, as one node: a device may then write results straight
// to the ranks that read them.
#pragma once

#include "runtime/joined_nodes.h"

namespace tutti {

// The nodes that compute an operand of `exchange` row by row for nobody else, and the views
// between.
std::vector<const Node*> producers_of(const Node& exchange, const Graph& graph);

// An AllToAll or AllGather with its producers, where it has some. Each as a FusedExchange whose
// last node is the exchange. A function of the graph alone, so that all ranks find the same.
std::vector<JoinedNodes> find_fused_exchanges(const Graph& graph);

}  // namespace tutti
