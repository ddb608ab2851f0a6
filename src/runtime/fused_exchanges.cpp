#include "runtime/fused_exchanges.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <unordered_map>

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

// The node that computes the operand, behind the views in front of it; empty where there is none
// that may join.
Nodes chain_behind(const Value* operand) {
  Nodes chain;
  for (const Node* node = operand->producer(); node != nullptr; node = node->input(0)->producer()) {
    chain.push_back(node);
    if (node->op().is_view) continue;
    return is_row_wise(*node) ? chain : Nodes();
  }
  return {};
}

// `exchange` and all that joins it.
Nodes members_of(const Node& exchange, const Graph& graph) {
  Nodes members = {&exchange};
  for (const Value* operand : exchange.inputs()) {
    if (std::count(exchange.inputs().begin(), exchange.inputs().end(), operand) > 1) continue;
    for (const Node* node : chain_behind(operand)) {
      if (std::find(members.begin(), members.end(), node) == members.end()) members.push_back(node);
    }
  }
  // Whoever is read by others than the exchange stays outside.
  const auto next_foreign = [&] {
    Nodes readers;
    std::copy_if(members.begin(), members.end(), std::back_inserter(readers),
                 [&](const Node* node) { return node == &exchange || node->op().is_view; });
    return std::find_if(members.begin() + 1, members.end(),
                        [&](const Node* node) { return !is_read_only_by(readers, *node, graph); });
  };
  for (auto it = next_foreign(); it != members.end(); it = next_foreign()) members.erase(it);
  return members;
}

}  // namespace

std::vector<JoinedNodes> find_fused_exchanges(const Graph& graph) {
  const Nodes nodes = nodes_of(graph);
  std::unordered_map<const Node*, std::size_t> position_of;
  for (std::size_t i = 0; i < nodes.size(); ++i) position_of.emplace(nodes[i], i);
  std::vector<JoinedNodes> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->type() != "AllToAll" && nodes[i]->type() != "AllGather") continue;
    const Nodes members = members_of(*nodes[i], graph);
    const bool computes = std::any_of(members.begin(), members.end(), [&](const Node* node) {
      return node != nodes[i] && !node->op().is_view;
    });
    if (!computes) continue;
    std::vector<std::size_t> positions;
    for (const Node* node : members) positions.push_back(position_of.at(node));
    std::sort(positions.begin(), positions.end());
    found.push_back(join_nodes(nodes, std::move(positions), i, fused_exchange_op()));
  }
  return found;
}

}  // namespace tutti
