// Shapes as text: "1, 16, 2*h, part(t,4,rank.cp)", with or without brackets.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tutti {

// Pieces between commas that are outside parentheses, trimmed. "" has none.
std::vector<std::string_view> split_list(std::string_view text);

// Errors name the piece that is no size. "" and "[]" are the shape of a scalar.
Result<Shape> parse_shape(std::string_view text);

// What TensorType::to_string writes: "f32[batch, 16]".
Result<TensorType> parse_tensor_type(std::string_view text);

}  // namespace tutti
