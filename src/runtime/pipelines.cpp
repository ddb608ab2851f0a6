#include "runtime/pipelines.h"

#include <algorithm>
#include <map>

#include "ops/pipelined_attention.h"

namespace tutti {
namespace {

using Nodes = std::vector<const Node*>;

// Whether every reader of what `node` computes is among `nodes`.
bool is_private(const Node& node, const Nodes& nodes, const Graph& graph) {
  const auto& outputs = graph.outputs();
  return std::all_of(node.outputs().begin(), node.outputs().end(), [&](const Value* value) {
    return std::find(outputs.begin(), outputs.end(), value) == outputs.end() &&
           std::all_of(value->users().begin(), value->users().end(), [&](const Node* user) {
             return std::find(nodes.begin(), nodes.end(), user) != nodes.end();
           });
  });
}

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
    return is_private(*node, inside, graph);
  });
  return is_closed ? i + 2 : at;
}

Pipeline make_pipeline(const Nodes& nodes, std::size_t first, std::size_t last) {
  Pipeline pipeline;
  pipeline.first = first;
  pipeline.last = last;
  pipeline.graph = std::make_unique<Graph>();
  auto body = std::make_shared<Graph>();
  std::map<const Value*, Value*> twins;
  std::vector<Value*> operands;
  for (std::size_t i = first; i < last; ++i) {
    const Node& node = *nodes[i];
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs()) {
      if (input != nullptr && !twins.contains(input)) {
        twins[input] = body->add_input("", input->type());
        operands.push_back(pipeline.graph->add_input("", input->type()));
        pipeline.inputs.push_back(input);
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
  const Value* result = nodes[last - 1]->output();
  body->add_output(twins.at(result));
  pipeline.outputs = {result};
  const Node* node = pipeline.graph->add_node(
      pipelined_attention_op(), nodes[last - 2]->name(), std::move(operands),
      {{"body", std::shared_ptr<const Graph>(std::move(body))}}, {result->type()});
  pipeline.graph->add_output(node->output());
  return pipeline;
}

}  // namespace

std::vector<Pipeline> find_pipelines(const Graph& graph) {
  Nodes nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  std::vector<Pipeline> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->type() != "AllToAll") continue;
    const std::size_t end = end_of_pipeline(nodes, i, graph);
    if (end == i) continue;
    found.push_back(make_pipeline(nodes, i, end));
    i = end - 1;
  }
  return found;
}

}  // namespace tutti
