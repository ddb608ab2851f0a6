// The model-local functions of a model.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "base/status.h"
#include "onnx/reader.h"
#include "onnx/scope.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace tutti {

class FunctionTable {
 public:
  // Keeps pointers into `model`. Errors: two functions with the same domain, name and overload.
  static Result<FunctionTable> create(const onnx::ModelProto& model);

  // The function that a node calls; null when it is no function of the model.
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  std::map<Key, const onnx::FunctionProto*> functions_;
};

// The opsets that a function's body is written for: its own imports over the caller's.
OpsetVersions function_opsets(const onnx::FunctionProto& function, const OpsetVersions& caller);

// Other domains are checked node by node; a model without nodes of ai.onnx need not import it.
Status check_onnx_opset(const OpsetVersions& opsets, const ReadLimits& limits);

}  // namespace tutti
