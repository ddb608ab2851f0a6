#include "onnx/function_table.h"

#include "onnx.pb.h"

namespace tutti {

Result<FunctionTable> FunctionTable::create(const onnx::ModelProto& model) {
  FunctionTable table;
  for (const onnx::FunctionProto& function : model.functions()) {
    Key key(canonical_domain(function.domain()), function.name(), function.overload());
    if (!table.functions_.emplace(std::move(key), &function).second) {
      return invalid_argument("function '", function.name(), "' of domain '", function.domain(),
                              "' is defined twice");
    }
  }
  return table;
}

const onnx::FunctionProto* FunctionTable::find(const onnx::NodeProto& node) const {
  const auto it =
      functions_.find(Key(canonical_domain(node.domain()), node.op_type(), node.overload()));
  return it == functions_.end() ? nullptr : it->second;
}

OpsetVersions function_opsets(const onnx::FunctionProto& function, const OpsetVersions& caller) {
  OpsetVersions opsets = caller;
  for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
    opsets[std::string(canonical_domain(import.domain()))] = import.version();
  }
  return opsets;
}

Status check_onnx_opset(const OpsetVersions& opsets, const ReadLimits& limits) {
  const auto it = opsets.find("");
  if (it == opsets.end() || (it->second >= limits.min_opset && it->second <= limits.max_opset)) {
    return Status();
  }
  return unimplemented("opset ", it->second, " of ai.onnx is not supported; supported are ",
                       limits.min_opset, " to ", limits.max_opset);
}

}  // namespace tutti
