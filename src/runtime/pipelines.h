// Attention between two exchanges, as one node that a device may run in overlapping pieces.
#pragma once

#include "runtime/joined_nodes.h"

namespace tutti {

// AllToAll of queries, keys and values; Concat of keys and of values with others, or neither;
// Attention; AllToAll of its result: one after the other, with nothing in between that anybody else
// reads. Each as a PipelinedAttention; with producers, those that compute what the first AllToAll
// moves (fused_exchanges.h), in front of it, where there are some. A function of the graph alone,
// so that all ranks find the same.
std::vector<JoinedNodes> find_pipelines(const Graph& graph, bool with_producers);

}  // namespace tutti
