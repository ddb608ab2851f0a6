#include "onnx/attribute_reference.h"

#include <algorithm>

#include "onnx.pb.h"

namespace tutti {

Result<const onnx::AttributeProto*> resolve_attribute(const onnx::AttributeProto& attribute,
                                                      const Scope& scope) {
  if (attribute.ref_attr_name().empty()) return &attribute;
  if (scope.arguments == nullptr) {
    return invalid_argument("attribute '", attribute.name(), "' refers to '",
                            attribute.ref_attr_name(), "' outside a function");
  }
  const auto it = scope.arguments->find(attribute.ref_attr_name());
  if (it == scope.arguments->end()) return nullptr;
  if (attribute.type() != onnx::AttributeProto::UNDEFINED &&
      attribute.type() != it->second->type()) {
    return invalid_argument("attribute '", attribute.name(), "' is declared as ",
                            onnx::AttributeProto::AttributeType_Name(attribute.type()),
                            ", the function was given ",
                            onnx::AttributeProto::AttributeType_Name(it->second->type()), " for '",
                            attribute.ref_attr_name(), "'");
  }
  return it->second;
}

Result<FunctionArguments> function_arguments(const onnx::NodeProto& node,
                                             const onnx::FunctionProto& function,
                                             const Scope& caller) {
  FunctionArguments arguments;
  for (const onnx::AttributeProto& standard : function.attribute_proto()) {
    arguments[standard.name()] = &standard;
  }
  const auto& required = function.attribute();
  for (const onnx::AttributeProto& given : node.attribute()) {
    const std::string& name = given.name();
    if (!arguments.contains(name) &&
        std::find(required.begin(), required.end(), name) == required.end()) {
      return invalid_argument("function '", function.name(), "' has no attribute '", name, "'");
    }
    TUTTI_ASSIGN_OR_RETURN(const onnx::AttributeProto* meant, resolve_attribute(given, caller));
    if (meant == nullptr) continue;
    if (meant->type() == onnx::AttributeProto::GRAPH) {
      return unimplemented("attribute '", name, "' hands a graph to function '", function.name(),
                           "', which is not supported");
    }
    arguments[name] = meant;
  }
  return arguments;
}

}  // namespace tutti
