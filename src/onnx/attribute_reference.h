// Attributes of nodes in function bodies may stand for what the caller gave (ref_attr_name).
#pragma once

#include "base/status.h"
#include "onnx/scope.h"

namespace onnx {
class AttributeProto;
class FunctionProto;
class NodeProto;
}  // namespace onnx

namespace tutti {

// The attribute itself or what it stands for; null when the function's caller left it out and the
// function has no default, so that the node goes without it.
Result<const onnx::AttributeProto*> resolve_attribute(const onnx::AttributeProto& attribute,
                                                      const Scope& scope);

// What `node`, in the caller's scope, gives the attributes of `function`, defaults filled in.
// An attribute without default that the caller leaves out is no error: nodes go without it, as
// exporters mean it. Errors: an attribute that the function does not have, a graph.
Result<FunctionArguments> function_arguments(const onnx::NodeProto& node,
                                             const onnx::FunctionProto& function,
                                             const Scope& caller);

}  // namespace tutti
