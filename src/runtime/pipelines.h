// Attention between two exchanges, as one node that a device may run in overlapping pieces.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace tutti {

// Nodes [first, last) of a graph, by position, and the one node PipelinedAttention in `graph` that
// says the same. `inputs` and `outputs` are values of the first graph, in the node's order.
struct Pipeline {
  std::size_t first = 0;
  std::size_t last = 0;
  std::unique_ptr<Graph> graph;
  std::vector<const Value*> inputs;
  std::vector<const Value*> outputs;

  const Node& node() const { return *graph->nodes().front(); }
};

// AllToAll of queries, keys and values; Concat of keys and of values with others, or neither;
// Attention; AllToAll of its result: one after the other, with nothing in between that anybody else
// reads. A function of the graph alone, so that all ranks find the same.
std::vector<Pipeline> find_pipelines(const Graph& graph);

}  // namespace tutti
