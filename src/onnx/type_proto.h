// TypeProto to TensorType and back.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/type_limits.h"

namespace onnx {
class TypeProto;
}

namespace tutti {

// Element type only. Sequences, maps, optionals and sparse tensors are errors.
Result<DType> element_type_from_proto(const onnx::TypeProto& proto);

// The declared shape. A dimension without a size gets the symbol "NAME.I"; a dim_param that is no
// formula becomes a symbol of its own. Errors: no shape at all, sizes below 0 or above kMaxDimSize.
Result<Shape> shape_from_proto(const onnx::TypeProto& proto, std::string_view name);

// "NAME" with what no symbol may contain replaced.
std::string symbol_text(std::string_view name);

void type_to_proto(const TensorType& type, onnx::TypeProto* proto);

}  // namespace tutti
