#include "graph/shape_text.h"

#include <cctype>

namespace tutti {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> pieces;
  if (trim(text).empty()) return pieces;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      pieces.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return pieces;
}

Result<Shape> parse_shape(std::string_view text) {
  std::string_view list = trim(text);
  if (!list.empty() && list.front() == '[') {
    if (list.back() != ']') return invalid_argument("shape '", text, "': expected ']' at its end");
    list = list.substr(1, list.size() - 2);
  }
  Shape shape;
  for (const std::string_view piece : split_list(list)) {
    TUTTI_ASSIGN_OR_RETURN(Dim dim, parse_dim(piece));
    shape.push_back(std::move(dim));
  }
  return shape;
}

Result<TensorType> parse_tensor_type(std::string_view text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) {
    return invalid_argument("type '", text, "': expected a form such as f32[batch, 16]");
  }
  TensorType type;
  TUTTI_ASSIGN_OR_RETURN(type.dtype, parse_dtype(text.substr(0, bracket)));
  TUTTI_ASSIGN_OR_RETURN(type.shape, parse_shape(text.substr(bracket)));
  return type;
}

}  // namespace tutti
