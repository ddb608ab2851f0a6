#include "compiler/node_order.h"

#include <set>
#include <vector>

namespace tutti {

void restore_order(Graph& graph) {
  std::set<const Node*> placed;
  std::vector<Node*> order;
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (Node* root : nodes) {
    std::vector<Node*> stack = {root};
    while (!stack.empty()) {
      Node* node = stack.back();
      if (placed.contains(node)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (const Value* input : node->inputs()) {
        if (input == nullptr || input->producer() == nullptr ||
            placed.contains(input->producer())) {
          continue;
        }
        stack.push_back(input->producer());
        ready = false;
      }
      if (!ready) continue;
      placed.insert(node);
      order.push_back(node);
      stack.pop_back();
    }
  }
  for (Node* node : order) graph.move_before(node, nullptr);
}

}  // namespace tutti
