#include "runtime/joined_nodes.h"

#include <algorithm>
#include <map>

namespace tutti {

std::vector<const Node*> nodes_of(const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  return nodes;
}

std::vector<std::size_t> positions_of(const std::vector<const Node*>& some,
                                      const std::vector<const Node*>& nodes) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (std::find(some.begin(), some.end(), nodes[i]) != some.end()) positions.push_back(i);
  }
  return positions;
}

bool is_read_only_by(const std::vector<const Node*>& nodes, const Node& node, const Graph& graph) {
  const auto& outputs = graph.outputs();
  return std::all_of(node.outputs().begin(), node.outputs().end(), [&](const Value* value) {
    return std::find(outputs.begin(), outputs.end(), value) == outputs.end() &&
           std::all_of(value->users().begin(), value->users().end(), [&](const Node* user) {
             return std::find(nodes.begin(), nodes.end(), user) != nodes.end();
           });
  });
}

JoinedNodes join_nodes(const std::vector<const Node*>& nodes, std::vector<std::size_t> positions,
                       std::size_t at, const OpDef& op, const std::string& name) {
  JoinedNodes joined;
  joined.at = at;
  joined.graph = std::make_unique<Graph>();
  auto body = std::make_shared<Graph>();
  std::map<const Value*, Value*> twins;
  std::vector<Value*> operands;
  for (const std::size_t position : positions) {
    const Node& node = *nodes[position];
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs()) {
      if (input != nullptr && !twins.contains(input)) {
        twins[input] = body->add_input("", input->type());
        operands.push_back(joined.graph->add_input("", input->type()));
        joined.inputs.push_back(input);
      }
      inputs.push_back(input == nullptr ? nullptr : twins.at(input));
    }
    std::vector<TensorType> types;
    for (const Value* output : node.outputs()) types.push_back(output->type());
    const Node* twin = body->add_node(node.op(), node.name(), std::move(inputs), node.attributes(),
                                      std::move(types));
    for (std::size_t j = 0; j < node.outputs().size(); ++j) {
      twins[node.output(j)] = twin->output(j);
    }
  }
  std::vector<TensorType> types;
  for (const Value* result : nodes[positions.back()]->outputs()) {
    body->add_output(twins.at(result));
    joined.outputs.push_back(result);
    types.push_back(result->type());
  }
  const Node* node =
      joined.graph->add_node(op, name, std::move(operands),
                             {{"body", std::shared_ptr<const Graph>(std::move(body))}}, types);
  for (Value* output : node->outputs()) joined.graph->add_output(output);
  joined.positions = std::move(positions);
  return joined;
}

}  // namespace tutti
