// Which exchanges can travel together.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace tutti {

// Exchanges none of which needs another's result, in the graph's order, and the nodes between the
// first and the last that need some of the results: they have to wait until behind the last.
struct ExchangeGroup {
  std::vector<Node*> members;
  std::vector<Node*> waiting;
};

using AgreeFunction = std::function<bool(const Node& first, const Node& candidate)>;
using MergeFunction = std::function<Status(const ExchangeGroup& group)>;

// Of `pending`, in the graph's order, each takes the later ones that agree with it and do not need
// it. What stands ready already comes to it; otherwise it waits. `merge` gets groups of two members
// and more, and puts one node in their place; nodes of other groups it leaves alone.
Status group_exchanges(Graph& graph, std::vector<Node*> pending, const AgreeFunction& agree,
                       const MergeFunction& merge);

}  // namespace tutti
