// TypeProto to TensorType and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/graph.h"

namespace onnx {
class TypeProto;
}

namespace tutti {

// A tensor of one dimension cannot be larger; keeps the arithmetic of sizes far from overflow.
inline constexpr std::int64_t kMaxDimSize = std::int64_t{1} << 40;
inline constexpr int kMaxRank = 32;

// Element type only. Sequences, maps, optionals and sparse tensors are errors.
Result<DType> element_type_from_proto(const onnx::TypeProto& proto);

// The declared shape. A dimension without a size gets the symbol "NAME.I"; a dim_param that is no
// formula becomes a symbol of its own. Errors: no shape at all, sizes below 0 or above kMaxDimSize.
Result<Shape> shape_from_proto(const onnx::TypeProto& proto, std::string_view name);

// "NAME" with what no symbol may contain replaced.
std::string symbol_text(std::string_view name);

void type_to_proto(const TensorType& type, onnx::TypeProto* proto);

}  // namespace tutti
