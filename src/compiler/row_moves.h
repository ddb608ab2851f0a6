// Slices and Pads along a split dimension: they only say which rows stand where.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"

namespace tutti {

// `windows` over the result of a Slice or Pad along that dimension alone, as windows over its
// operand, so that rows come but once. nullopt: the node does more, or windows reach past its
// result's edges.
std::optional<Split> windows_of_operand(const Node& node, const Split& windows);

}  // namespace tutti
