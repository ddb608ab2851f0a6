#include "compiler/exchange_groups.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/op_def.h"

namespace tutti {
namespace {

std::vector<Node*> order_of(const Graph& graph) {
  std::vector<Node*> order;
  for (const auto& node : graph.nodes()) order.push_back(node.get());
  return order;
}

// Nodes between the first of `group` and `candidate` that need results of the group, in order;
// nullopt when the candidate is one of them, or when so much would have to wait that it is no
// longer the same place in the model.
std::optional<std::vector<Node*>> waiting_for(const std::vector<Node*>& group,
                                              const Node* candidate,
                                              const std::vector<Node*>& order) {
  constexpr std::size_t kMaxWaiting = 64;
  std::set<const Node*> late(group.begin(), group.end());
  std::vector<Node*> waiting;
  auto it = std::find(order.begin(), order.end(), group.front());
  for (++it; it != order.end(); ++it) {
    Node* node = *it;
    const bool needs_group = std::any_of(
        node->inputs().begin(), node->inputs().end(),
        [&](const Value* input) { return input != nullptr && late.contains(input->producer()); });
    if (node == candidate) {
      if (needs_group) return std::nullopt;
      return waiting;
    }
    if (!needs_group || late.contains(node)) continue;
    if (node->op().is_exchange || waiting.size() == kMaxWaiting) return std::nullopt;
    late.insert(node);
    waiting.push_back(node);
  }
  return std::nullopt;
}

Node* next_of(const Node* node, const std::vector<Node*>& order) {
  const auto it = std::find(order.begin(), order.end(), node);
  return it + 1 == order.end() ? nullptr : *(it + 1);
}

// All operands of `candidate` exist before `node` runs.
bool is_ready(const Node& candidate, const Node& node, const std::vector<Node*>& order) {
  std::set<const Node*> producers;
  for (const Value* input : candidate.inputs()) {
    if (input->producer() != nullptr) producers.insert(input->producer());
  }
  for (const Node* earlier : order) {
    if (earlier == &node) break;
    producers.erase(earlier);
  }
  return producers.empty();
}

}  // namespace

Status group_exchanges(Graph& graph, std::vector<Node*> pending, const AgreeFunction& agree,
                       const MergeFunction& merge) {
  for (std::size_t first = 0; first < pending.size(); ++first) {
    if (pending[first] == nullptr) continue;
    std::vector<Node*> order = order_of(graph);
    ExchangeGroup group{{pending[first]}, {}};
    for (std::size_t next = first + 1; next < pending.size(); ++next) {
      Node* candidate = pending[next];
      if (candidate == nullptr || !agree(*group.members[0], *candidate)) continue;
      Node* next_node = next_of(group.members.back(), order);
      if (next_node != candidate && is_ready(*candidate, *group.members.back(), order)) {
        graph.move_before(candidate, next_node);
        order = order_of(graph);
      }
      auto more = waiting_for(group.members, candidate, order);
      if (!more) break;  // later ones are further away
      group.waiting = *std::move(more);
      group.members.push_back(candidate);
      pending[next] = nullptr;
    }
    if (group.members.size() > 1) TUTTI_RETURN_IF_ERROR(merge(group));
  }
  return {};
}

}  // namespace tutti
