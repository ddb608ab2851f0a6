#include "backends/abi/node_text.h"

#include "graph/printer.h"

namespace tutti::abi {

std::string node_text(const Node& node) {
  Graph graph;
  std::map<const Value*, Value*> copies;
  std::vector<Value*> inputs;
  for (const Value* input : node.inputs()) {
    Value* copy = nullptr;
    if (input != nullptr) {
      Value*& known = copies[input];
      if (known == nullptr) known = graph.add_input(str_cat("i", copies.size()), input->type());
      copy = known;
    }
    inputs.push_back(copy);
  }
  std::vector<TensorType> types;
  for (const Value* output : node.outputs()) types.push_back(output->type());
  const Node* alone =
      graph.add_node(node.op(), node.name(), std::move(inputs), node.attributes(), types);
  for (Value* output : alone->outputs()) graph.add_output(output);
  return print(graph);
}

Result<std::unique_ptr<Graph>> parse_node(std::string_view text, const OpRegistry& registry) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, parse_graph(text, registry));
  if (graph->nodes().size() != 1) {
    return invalid_argument("the text of a node holds ", graph->nodes().size(), " nodes");
  }
  return graph;
}

}  // namespace tutti::abi
