// Walks the nodes of an ONNX model and lowers each into a graph of core operators.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/builder.h"
#include "onnx.pb.h"
#include "onnx/external_data.h"
#include "onnx/function_table.h"
#include "onnx/reader.h"
#include "onnx/scope.h"
#include "ops/lowering.h"

namespace tutti {

class GraphImporter {
 public:
  // All arguments outlive the importer.
  GraphImporter(Graph* graph, const OpRegistry& registry, const LoweringRegistry& lowerings,
                const ReadOptions& options, const FunctionTable& functions, ExternalFiles* files)
      : builder_(graph, &registry, options.evaluator),
        lowerings_(lowerings),
        options_(options),
        functions_(functions),
        files_(files) {}

  // Fills the graph: inputs, nodes, outputs and output names.
  Status import_main(const onnx::GraphProto& graph, const OpsetVersions& opsets);

 private:
  using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  Status import_nodes(const NodeList& nodes, Scope* scope);
  Status import_node(const onnx::NodeProto& node, const std::string& name, Scope* scope);
  Status import_initializers(const onnx::GraphProto& graph, Scope* scope);

  // control_flow.cpp
  Status import_constant(const onnx::NodeProto& node, Scope* scope, std::vector<Value*>* outputs);
  Status import_if(const onnx::NodeProto& node, const std::string& name,
                   const std::vector<Value*>& inputs, Scope* scope, std::vector<Value*>* outputs);
  Status check_depth(const Scope& scope) const;
  Status import_call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
                     const std::string& name, const std::vector<Value*>& inputs, Scope* scope,
                     std::vector<Value*>* outputs);

  Status lower(const onnx::NodeProto& node, const std::string& name, std::vector<Value*> inputs,
               Scope* scope, std::vector<Value*>* outputs);
  Status unsupported(const onnx::NodeProto& node, std::int64_t opset) const;

  Result<std::vector<Value*>> read_operands(const onnx::NodeProto& node, const Scope& scope) const;
  Result<AttributeMap> read_attributes(const onnx::NodeProto& node, const Lowering& rule,
                                       const Scope& scope) const;
  // Gives a node's outputs their names in the scope and, where they are new, in the graph.
  Status bind_outputs(const onnx::NodeProto& node, const std::vector<Value*>& outputs,
                      Scope* scope);

  GraphBuilder builder_;
  const LoweringRegistry& lowerings_;
  const ReadOptions& options_;
  const FunctionTable& functions_;
  ExternalFiles* files_;
  std::int64_t num_nodes_ = 0;
  std::vector<const onnx::FunctionProto*> calls_;  // being inlined, outermost first
  // Values that bear a name of the model, and how deep in calls and branches it was given.
  std::unordered_map<const Value*, int> named_;
};

}  // namespace tutti
