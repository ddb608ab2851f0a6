#include "onnx/name_uses.h"

#include "onnx.pb.h"

namespace tutti {
namespace {

template <class Nodes>
void collect_node_uses(const Nodes& nodes, std::unordered_set<std::string>* names) {
  for (const onnx::NodeProto& node : nodes) {
    names->insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_uses(attribute.g(), names);
      for (const onnx::GraphProto& graph : attribute.graphs()) collect_uses(graph, names);
    }
  }
}

}  // namespace

void collect_uses(const onnx::GraphProto& graph, std::unordered_set<std::string>* names) {
  collect_node_uses(graph.node(), names);
  for (const onnx::ValueInfoProto& output : graph.output()) names->insert(output.name());
}

void collect_uses(const onnx::FunctionProto& function, std::unordered_set<std::string>* names) {
  collect_node_uses(function.node(), names);
  names->insert(function.output().begin(), function.output().end());
}

}  // namespace tutti
