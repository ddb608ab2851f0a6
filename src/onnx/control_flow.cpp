// What the importer does itself rather than through a lowering: constants, branches, functions.
#include <algorithm>

#include "onnx/attribute_reference.h"
#include "onnx/graph_importer.h"
#include "onnx/name_uses.h"
#include "onnx/tensor_proto.h"

namespace tutti {
namespace {

template <class T, class Field>
Tensor tensor_of(const Field& field) {
  const std::vector<T> values(field.begin(), field.end());
  return Tensor::of<T>({static_cast<std::int64_t>(values.size())}, values);
}

Result<Tensor> constant_value(const onnx::AttributeProto& attribute, ExternalFiles* files) {
  const std::string& name = attribute.name();
  using onnx::AttributeProto;
  const auto is = [&](const char* expected, AttributeProto::AttributeType type) {
    return name == expected && attribute.type() == type;
  };
  if (is("value", AttributeProto::TENSOR)) return tensor_from_proto(attribute.t(), files);
  if (is("value_int", AttributeProto::INT)) {
    const std::int64_t value = attribute.i();
    return Tensor::of<std::int64_t>({}, {&value, 1});
  }
  if (is("value_float", AttributeProto::FLOAT)) {
    const float value = attribute.f();
    return Tensor::of<float>({}, {&value, 1});
  }
  if (is("value_ints", AttributeProto::INTS)) return tensor_of<std::int64_t>(attribute.ints());
  if (is("value_floats", AttributeProto::FLOATS)) return tensor_of<float>(attribute.floats());
  return unimplemented("constant given as '", name, "' of kind ",
                       AttributeProto::AttributeType_Name(attribute.type()),
                       " is not supported; supported are dense tensors and numbers");
}

}  // namespace

Status GraphImporter::check_depth(const Scope& scope) const {
  if (scope.depth < options_.limits.max_call_depth) return Status();
  return invalid_argument("functions and branches are nested more than ",
                          options_.limits.max_call_depth, " deep");
}

Status GraphImporter::import_constant(const onnx::NodeProto& node, Scope* scope,
                                      std::vector<Value*>* outputs) {
  if (node.attribute_size() != 1) {
    return invalid_argument("has ", node.attribute_size(), " attributes, expected one value");
  }
  const onnx::AttributeProto& written = node.attribute(0);
  TUTTI_ASSIGN_OR_RETURN(const onnx::AttributeProto* meant, resolve_attribute(written, *scope));
  if (meant == nullptr) {
    return invalid_argument("the function's caller gives no attribute '", written.ref_attr_name(),
                            "'");
  }
  onnx::AttributeProto renamed;
  if (meant != &written) {  // a reference bears the caller's name; the written one says the form
    renamed = *meant;
    renamed.set_name(written.name());
    meant = &renamed;
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, constant_value(*meant, files_));
  outputs->push_back(builder_.constant(std::move(tensor)));
  return Status();
}

Status GraphImporter::import_if(const onnx::NodeProto& node, const std::string& name,
                                const std::vector<Value*>& inputs, Scope* scope,
                                std::vector<Value*>* outputs) {
  TUTTI_RETURN_IF_ERROR(check_depth(*scope));
  const Value* condition = inputs.size() == 1 ? inputs[0] : nullptr;
  if (condition == nullptr || condition->dtype() != DType::kBool) {
    return invalid_argument("expected one input, a bool");
  }
  if (!condition->is_constant() || condition->constant().element_count() != 1) {
    return unimplemented("condition '", condition->name(), "' of '", name,
                         "' is not known at compile time; binding the graph input that decides it "
                         "(`--bind NAME=FILE.npy`) fixes it");
  }
  const bool taken = condition->constant().data()[0] != std::byte{0};
  const std::string_view wanted = taken ? "then_branch" : "else_branch";
  const auto branch =
      std::find_if(node.attribute().begin(), node.attribute().end(),
                   [&](const auto& attribute) { return attribute.name() == wanted; });
  if (branch == node.attribute().end() || !branch->has_g()) {
    return invalid_argument("attribute '", wanted, "' is missing");
  }
  const onnx::GraphProto& graph = branch->g();
  if (graph.input_size() > 0) return invalid_argument("'", wanted, "' has inputs of its own");
  if (graph.output_size() < node.output_size()) {
    return invalid_argument("'", wanted, "' has ", graph.output_size(), " outputs, expected ",
                            node.output_size());
  }
  Scope inner;
  inner.outer = scope;
  inner.opsets = scope->opsets;
  inner.arguments = scope->arguments;
  inner.prefix = scope->prefix;
  inner.depth = scope->depth + 1;
  collect_uses(graph, &inner.used);
  TUTTI_RETURN_IF_ERROR(import_initializers(graph, &inner));
  TUTTI_RETURN_IF_ERROR(import_nodes(graph.node(), &inner));
  for (const onnx::ValueInfoProto& output : graph.output()) {
    Value* value = inner.find(output.name()).value;
    if (value == nullptr) {
      return invalid_argument("output '", output.name(), "' of '", wanted, "' is made by no node");
    }
    outputs->push_back(value);
  }
  return Status();
}

Status GraphImporter::import_call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
                                  const std::string& name, const std::vector<Value*>& inputs,
                                  Scope* scope, std::vector<Value*>* outputs) {
  TUTTI_RETURN_IF_ERROR(check_depth(*scope));
  if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end()) {
    return invalid_argument("function '", function.name(), "' calls itself");
  }
  if (inputs.size() > static_cast<std::size_t>(function.input_size()) ||
      node.output_size() > function.output_size()) {
    return invalid_argument("has ", inputs.size(), " inputs and ", node.output_size(),
                            " outputs, function '", function.name(), "' has ",
                            function.input_size(), " and ", function.output_size());
  }
  TUTTI_ASSIGN_OR_RETURN(const FunctionArguments arguments,
                         function_arguments(node, function, *scope));
  const OpsetVersions opsets = function_opsets(function, *scope->opsets);
  TUTTI_RETURN_IF_ERROR(check_onnx_opset(opsets, options_.limits));
  Scope inner;
  inner.opsets = &opsets;
  inner.arguments = &arguments;
  inner.prefix = name + "/";
  inner.depth = scope->depth + 1;
  collect_uses(function, &inner.used);
  for (int i = 0; i < function.input_size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    Value* given = index < inputs.size() ? inputs[index] : nullptr;
    if (!inner.values.emplace(function.input(i), given).second) {
      return invalid_argument("function '", function.name(), "' has two inputs '",
                              function.input(i), "'");
    }
  }
  calls_.push_back(&function);
  const Status status = import_nodes(function.node(), &inner);
  calls_.pop_back();
  TUTTI_RETURN_IF_ERROR(status);
  for (const std::string& output : function.output()) {
    outputs->push_back(inner.find(output).value);  // null: bind_outputs objects if it is needed
  }
  return Status();
}

}  // namespace tutti
