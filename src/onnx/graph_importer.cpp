#include "onnx/graph_importer.h"

#include <algorithm>
#include <unordered_set>

#include "onnx/attribute_proto.h"
#include "onnx/attribute_reference.h"
#include "onnx/graph_inputs.h"
#include "onnx/name_uses.h"
#include "onnx/tensor_proto.h"

namespace tutti {
namespace {

std::string node_name(const onnx::NodeProto& node, const Scope& scope) {
  for (const std::string& output : node.output()) {
    if (node.name().empty() && !output.empty()) return scope.prefix + output;
  }
  return scope.prefix + (node.name().empty() ? node.op_type() : node.name());
}

std::string operator_text(const onnx::NodeProto& node, const Scope& scope) {
  const std::string_view domain = canonical_domain(node.domain());
  const auto opset = scope.opsets->find(domain);
  return str_cat(node.op_type(), ", ", domain.empty() ? "ai.onnx" : domain, " opset ",
                 opset == scope.opsets->end() ? "unknown" : std::to_string(opset->second));
}

// How many outputs a lowering is asked for. One that nothing reads is not asked for, so that unused
// statistics or masks need no support; only Split's number of outputs has a meaning of its own.
int count_outputs(const onnx::NodeProto& node, const Scope& scope) {
  int count = node.output_size();
  if (node.op_type() == "Split") return count;
  while (count > 1 &&
         (node.output(count - 1).empty() || !scope.used.contains(node.output(count - 1)))) {
    --count;
  }
  return count;
}

}  // namespace

Status GraphImporter::import_main(const onnx::GraphProto& graph, const OpsetVersions& opsets) {
  Scope scope;
  scope.opsets = &opsets;
  collect_uses(graph, &scope.used);

  TUTTI_ASSIGN_OR_RETURN(const std::vector<GraphInput> inputs, resolve_inputs(graph, options_));
  for (const GraphInput& input : inputs) {
    Value* value = input.content ? builder_.constant(*input.content, input.name)
                                 : builder_.graph().add_input(input.name, input.type);
    named_.try_emplace(value, 0);
    if (!scope.values.emplace(input.name, value).second || value->name() != input.name) {
      return invalid_argument("two inputs have the name '", input.name, "'");
    }
  }
  TUTTI_RETURN_IF_ERROR(import_initializers(graph, &scope));
  TUTTI_RETURN_IF_ERROR(import_nodes(graph.node(), &scope));

  std::unordered_set<std::string> names;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    const std::string& name = output.name();
    Value* value = scope.find(name).value;
    if (value == nullptr) return invalid_argument("output '", name, "' is made by no node");
    if (!names.insert(name).second) {
      return invalid_argument("two outputs have the name '", name, "'");
    }
    const int declared = output.type().tensor_type().elem_type();
    if (declared != 0 && declared != dtype_to_onnx(value->dtype())) {
      return invalid_argument("output '", name, "' is ", dtype_name(value->dtype()),
                              ", the model declares ONNX element type ", declared);
    }
    builder_.graph().add_output(value);
    builder_.graph().output_names.push_back(name);
  }
  if (names.empty()) return invalid_argument("the model has no outputs");
  return Status();
}

Status GraphImporter::import_initializers(const onnx::GraphProto& graph, Scope* scope) {
  if (graph.sparse_initializer_size() > 0) {
    return unimplemented("initializer '", graph.sparse_initializer(0).values().name(),
                         "' is sparse; only dense ones are supported");
  }
  for (const onnx::TensorProto& proto : graph.initializer()) {
    const auto bound = scope->values.find(proto.name());
    if (scope->outer == nullptr && bound != scope->values.end() &&
        options_.bound_inputs.contains(proto.name())) {
      continue;  // the caller's content replaces the default
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, tensor_from_proto(proto, files_));
    Value* value = builder_.constant(std::move(tensor), scope->prefix + proto.name());
    named_.try_emplace(value, scope->depth);
    if (proto.name().empty() || !scope->values.emplace(proto.name(), value).second) {
      return invalid_argument("two initializers have the name '", proto.name(), "'");
    }
  }
  return Status();
}

Status GraphImporter::import_nodes(const NodeList& nodes, Scope* scope) {
  for (const onnx::NodeProto& node : nodes) {
    const std::string name = node_name(node, *scope);
    if (++num_nodes_ > options_.limits.max_nodes) {
      return invalid_argument("the model has more than ", options_.limits.max_nodes,
                              " nodes (functions inlined)");
    }
    builder_.set_name(name);
    const Status status = import_node(node, name, scope);
    if (status.ok()) continue;
    // The builder and inner nodes have put a node in front already.
    if (status.message().starts_with("node '")) return status;
    return status.with_context(str_cat("node '", name, "' (", operator_text(node, *scope), ")"));
  }
  return Status();
}

Status GraphImporter::import_node(const onnx::NodeProto& node, const std::string& name,
                                  Scope* scope) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<Value*> inputs, read_operands(node, *scope));
  std::vector<Value*> outputs;
  const bool is_onnx = canonical_domain(node.domain()).empty();
  if (const onnx::FunctionProto* function = functions_.find(node)) {
    TUTTI_RETURN_IF_ERROR(import_call(node, *function, name, inputs, scope, &outputs));
  } else if (is_onnx && node.op_type() == "Constant") {
    TUTTI_RETURN_IF_ERROR(import_constant(node, scope, &outputs));
  } else if (is_onnx && node.op_type() == "If") {
    TUTTI_RETURN_IF_ERROR(import_if(node, name, inputs, scope, &outputs));
  } else {
    TUTTI_RETURN_IF_ERROR(lower(node, name, std::move(inputs), scope, &outputs));
  }
  return bind_outputs(node, outputs, scope);
}

Result<std::vector<Value*>> GraphImporter::read_operands(const onnx::NodeProto& node,
                                                         const Scope& scope) const {
  std::vector<Value*> inputs;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    const Scope::Found found = scope.find(name);
    if (!found.known) {
      return invalid_argument("input '", name,
                              "' is no input, initializer or output of an earlier node (nodes must "
                              "be in topological order)");
    }
    inputs.push_back(found.value);
  }
  return inputs;
}

Status GraphImporter::bind_outputs(const onnx::NodeProto& node, const std::vector<Value*>& outputs,
                                   Scope* scope) {
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    const auto index = static_cast<std::size_t>(i);
    Value* value = index < outputs.size() ? outputs[index] : nullptr;
    if (value == nullptr) {
      if (!scope->used.contains(name)) continue;
      return unimplemented("output ", i, " ('", name, "') is not supported");
    }
    if (!scope->values.emplace(name, value).second) {
      return invalid_argument("output '", name, "' has the name of another value");
    }
    if (value->is_input()) continue;
    // What a function or branch returns gets the caller's name.
    const auto [known, is_new] = named_.try_emplace(value, scope->depth);
    if (is_new || scope->depth < known->second) {
      known->second = scope->depth;
      builder_.graph().rename(value, scope->prefix + name);
    }
  }
  return Status();
}

Status GraphImporter::lower(const onnx::NodeProto& node, const std::string& name,
                            std::vector<Value*> inputs, Scope* scope,
                            std::vector<Value*>* outputs) {
  const std::string_view domain = canonical_domain(node.domain());
  const auto opset = scope->opsets->find(domain);
  if (opset == scope->opsets->end()) {
    return invalid_argument("the model imports no opset of domain '",
                            domain.empty() ? "ai.onnx" : domain, "'");
  }
  const Lowering* rule = lowerings_.find(domain, node.op_type(), static_cast<int>(opset->second));
  if (rule == nullptr) return unsupported(node, opset->second);

  TUTTI_ASSIGN_OR_RETURN(AttributeMap attributes, read_attributes(node, *rule, *scope));
  LoweringContext context(&builder_, node.op_type(), static_cast<int>(opset->second),
                          std::move(inputs), std::move(attributes), count_outputs(node, *scope));
  builder_.set_name(name);
  Status status = rule->lower(context);
  const Status built = builder_.take_status();
  if (!built.ok()) status = built;  // the first error: what follows comes from null values
  TUTTI_RETURN_IF_ERROR(status);
  *outputs = std::move(context.outputs);
  return Status();
}

Status GraphImporter::unsupported(const onnx::NodeProto& node, std::int64_t opset) const {
  const std::string_view domain = canonical_domain(node.domain());
  std::string hint;
  for (const Lowering* rule : lowerings_.all()) {
    if (rule->op_type != node.op_type()) continue;
    hint =
        str_cat("; supported is ", rule->op_type, " of domain ",
                rule->domain.empty() ? "ai.onnx" : rule->domain, " from opset ", rule->since_opset);
  }
  const std::string nearest = lowerings_.nearest(node.op_type());
  if (hint.empty() && !nearest.empty()) hint = str_cat("; the nearest supported one is ", nearest);
  return unimplemented("operator ", node.op_type(), " of domain ",
                       domain.empty() ? "ai.onnx" : domain, ", opset ", opset, ", is not supported",
                       hint);
}

Result<AttributeMap> GraphImporter::read_attributes(const onnx::NodeProto& node,
                                                    const Lowering& rule,
                                                    const Scope& scope) const {
  AttributeMap attributes;
  for (const onnx::AttributeProto& written : node.attribute()) {
    const std::string& name = written.name();
    TUTTI_ASSIGN_OR_RETURN(const onnx::AttributeProto* meant, resolve_attribute(written, scope));
    if (meant == nullptr) continue;
    if (std::find(rule.attributes.begin(), rule.attributes.end(), name) == rule.attributes.end()) {
      return unimplemented("attribute '", name, "' of operator ", node.op_type(),
                           " is not supported; supported are ", rule.attributes);
    }
    TUTTI_ASSIGN_OR_RETURN(Attribute attribute, attribute_from_proto(*meant, files_));
    if (!attributes.emplace(name, std::move(attribute)).second) {
      return invalid_argument("attribute '", name, "' is given twice");
    }
  }
  return attributes;
}

}  // namespace tutti
