// Graphs of core operators as GraphProto and back, without loss: doubles keep their bits, symbolic
// sizes their formulas, outputs the names under which they are seen from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/op_def.h"
#include "onnx/external_data.h"
#include "plan/data_writer.h"

namespace onnx {
class GraphProto;
class ValueInfoProto;
}  // namespace onnx

namespace tutti {

struct GraphTarget {
  DataWriter* data = nullptr;  // for large constants
  std::string data_name;       // what it is called in the file
  const Mesh& mesh;
  const LayoutTable& layouts;  // written as annotations of nodes
};

// Errors: a value whose type inference does not confirm, or whose sizes do not read back from their
// text.
Status graph_to_proto(const Graph& graph, const GraphTarget& target, onnx::GraphProto* proto);

void value_to_proto(const std::string& name, const TensorType& type, onnx::ValueInfoProto* proto);

struct GraphSource {
  const OpRegistry& registry;
  ExternalFiles* files = nullptr;
  std::string data_name;        // the only file that tensors may lie in; "": none
  std::int64_t nodes_left = 0;  // counts down over all graphs
};

// Errors name the node or value.
Result<std::unique_ptr<Graph>> graph_from_proto(const onnx::GraphProto& proto, GraphSource* source);

// Sizes must be there, each constant or a formula, none past kMaxDimSize.
Result<TensorType> type_from_value(const onnx::ValueInfoProto& proto);

}  // namespace tutti
