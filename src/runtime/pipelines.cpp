#include "runtime/pipelines.h"

#include <algorithm>

#include "ops/joined_nodes.h"
#include "runtime/fused_exchanges.h"

namespace tutti {
namespace {

using Nodes = std::vector<const Node*>;

// nodes[at] exchanges what an attention attends to; where the pipeline ends, or `at`.
std::size_t end_of_pipeline(const Nodes& nodes, std::size_t at, const Graph& graph) {
  std::size_t i = at + 1;
  while (i < nodes.size() && nodes[i]->type() == "Concat") ++i;
  if (i + 1 >= nodes.size() || nodes[i]->type() != "Attention" ||
      nodes[i + 1]->type() != "AllToAll" || nodes[i + 1]->inputs().size() != 1 ||
      nodes[i + 1]->input(0) != nodes[i]->output() || nodes[i]->input(0)->producer() != nodes[at]) {
    return at;
  }
  const Nodes inside(nodes.begin() + static_cast<std::ptrdiff_t>(at),
                     nodes.begin() + static_cast<std::ptrdiff_t>(i + 2));
  const bool is_closed = std::all_of(inside.begin(), inside.end() - 1, [&](const Node* node) {
    return is_read_only_by(inside, *node, graph);
  });
  return is_closed ? i + 2 : at;
}

}  // namespace

std::vector<JoinedNodes> find_pipelines(const Graph& graph, bool with_producers) {
  const Nodes nodes = nodes_of(graph);
  std::vector<JoinedNodes> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->type() != "AllToAll") continue;
    const std::size_t end = end_of_pipeline(nodes, i, graph);
    if (end == i) continue;
    std::vector<std::size_t> positions;
    if (with_producers) positions = positions_of(producers_of(*nodes[i], graph), nodes);
    if (with_producers == !positions.empty()) {
      for (std::size_t inside = i; inside < end; ++inside) positions.push_back(inside);
      found.push_back(join_nodes(nodes, std::move(positions), i, pipelined_attention_op(),
                                 nodes[end - 2]->name()));
    }
    i = end - 1;
  }
  return found;
}

}  // namespace tutti
