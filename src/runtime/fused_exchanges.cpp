#include "runtime/fused_exchanges.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "graph/op_def.h"
#include "ops/joined_nodes.h"

namespace tutti {
namespace {

using Nodes = std::vector<const Node*>;

bool is_row_wise(const Node& node) {
  static constexpr std::array<std::string_view, 7> kTypes = {
      "Fused", "LayerNormalization", "RMSNormalization", "Slice", "Split", "Concat", "Transpose"};
  return node.op().is_pointwise ||
         std::find(kTypes.begin(), kTypes.end(), node.type()) != kTypes.end();
}

// The views in front of the operand and the node that computes it; empty where that is not
// row-wise.
Nodes chain_behind(const Value* operand) {
  Nodes chain;
  for (const Node* node = operand->producer(); node != nullptr; node = node->input(0)->producer()) {
    chain.push_back(node);
    if (node->op().is_view) continue;
    return is_row_wise(*node) ? chain : Nodes();
  }
  return {};
}

}  // namespace

std::vector<const Node*> producers_of(const Node& exchange, const Graph& graph) {
  Nodes producers;
  for (const Value* operand : exchange.inputs()) {
    if (std::count(exchange.inputs().begin(), exchange.inputs().end(), operand) > 1) continue;
    for (const Node* node : chain_behind(operand)) {
      if (std::find(producers.begin(), producers.end(), node) == producers.end()) {
        producers.push_back(node);
      }
    }
  }
  // Whoever is read by others than the exchange stays outside.
  const auto next_foreign = [&] {
    Nodes readers = {&exchange};
    std::copy_if(producers.begin(), producers.end(), std::back_inserter(readers),
                 [](const Node* node) { return node->op().is_view; });
    return std::find_if(producers.begin(), producers.end(),
                        [&](const Node* node) { return !is_read_only_by(readers, *node, graph); });
  };
  for (auto it = next_foreign(); it != producers.end(); it = next_foreign()) producers.erase(it);
  const bool computes = std::any_of(producers.begin(), producers.end(),
                                    [](const Node* node) { return !node->op().is_view; });
  return computes ? producers : Nodes();
}

std::vector<JoinedNodes> find_fused_exchanges(const Graph& graph) {
  const Nodes nodes = nodes_of(graph);
  std::vector<JoinedNodes> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->type() != "AllToAll" && nodes[i]->type() != "AllGather") continue;
    const Nodes producers = producers_of(*nodes[i], graph);
    if (producers.empty()) continue;
    std::vector<std::size_t> positions = positions_of(producers, nodes);
    positions.push_back(i);
    found.push_back(
        join_nodes(nodes, std::move(positions), i, fused_exchange_op(), nodes[i]->name()));
  }
  return found;
}

}  // namespace tutti
