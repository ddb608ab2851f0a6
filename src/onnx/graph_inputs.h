// Which inputs a graph gets: what the model declares, under the caller's bindings and overrides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "onnx/reader.h"

namespace onnx {
class GraphProto;
}

namespace tutti {

struct GraphInput {
  std::string name;
  TensorType type;
  std::optional<Tensor> content;  // bound at compile time: no input but a constant
};

// In the model's order, without the inputs that are initialisers (unless bound). Errors: names and
// symbols in the options that the model does not have, content that does not fit its declaration.
Result<std::vector<GraphInput>> resolve_inputs(const onnx::GraphProto& graph,
                                               const ReadOptions& options);

}  // namespace tutti
