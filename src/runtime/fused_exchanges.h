// An exchange and what computes its operands, as one node: a device may then write results straight
// to the ranks that read them.
#pragma once

#include "runtime/joined_nodes.h"

namespace tutti {

// An AllToAll or AllGather with all nodes that compute an operand of it row by row for nobody else
// (Fused nodes, norms, pointwise nodes, movements), and the views between. Each as a
// FusedExchange whose last node is the exchange. A function of the graph alone, so that all ranks
// find the same.
std::vector<JoinedNodes> find_fused_exchanges(const Graph& graph);

}  // namespace tutti
