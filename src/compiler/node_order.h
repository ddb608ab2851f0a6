// The order of nodes after passes that merge some.
#pragma once

#include "graph/graph.h"

namespace tutti {

// Puts the nodes into an order in which every operand comes first, close to the old one.
void restore_order(Graph& graph);

}  // namespace tutti
