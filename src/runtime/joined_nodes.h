// Several nodes of a graph as one that a device may run better than each by itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tutti {

// The one node in `graph` says the same as the nodes of another graph at `positions`, run where
// `at`, one of them, stands. `inputs` and `outputs` are values of that other graph, in the node's
// order.
struct JoinedNodes {
  std::size_t at = 0;
  std::vector<std::size_t> positions;  // ascending
  std::unique_ptr<Graph> graph;
  std::vector<const Value*> inputs;
  std::vector<const Value*> outputs;

  const Node& node() const { return *graph->nodes().front(); }
};

// Joins what stands at `positions` (ascending) of `nodes` into a node of `op` whose body they are.
// Operands are in the order in which they are read; results those of the last node.
JoinedNodes join_nodes(const std::vector<const Node*>& nodes, std::vector<std::size_t> positions,
                       std::size_t at, const OpDef& op, const std::string& name);

// Whether every reader of what `node` computes is among `nodes`, and it is no output of `graph`.
bool is_read_only_by(const std::vector<const Node*>& nodes, const Node& node, const Graph& graph);

std::vector<const Node*> nodes_of(const Graph& graph);
// Where `some` of `nodes` stand, ascending.
std::vector<std::size_t> positions_of(const std::vector<const Node*>& some,
                                      const std::vector<const Node*>& nodes);

}  // namespace tutti
