#include "graph/type_limits.h"

#include "graph/dim_limits.h"

namespace tutti {
namespace {

// No formula of this length is past any other limit of parse_dim().
constexpr std::size_t kShortText = 256;

Status check_formula(const Dim& dim, std::size_t index) {
  const std::string text = dim.to_string();
  const bool is_marked = text.find(kTooLargeSize) != std::string::npos;
  if (!is_marked && (text.size() <= kShortText || parse_dim(text).ok())) return Status();
  const std::string start = is_marked ? "" : str_cat(" (", text.substr(0, kShortText), "...)");
  return invalid_argument("dimension ", index, " has a size whose formula", start,
                          " is too large; expected at most ", kMaxSizeText, " characters, ",
                          kMaxSizeTerms, " terms and ", kMaxSizeFactors, " factors in each");
}

}  // namespace

Status check_limits(const TensorType& type) {
  if (type.shape.size() > static_cast<std::size_t>(kMaxRank)) {
    return invalid_argument("has ", type.shape.size(), " dimensions; at most ", kMaxRank,
                            " are supported");
  }
  Dims constants;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const Dim& dim = type.shape[i];
    if (!dim.is_constant()) {
      TUTTI_RETURN_IF_ERROR(check_formula(dim, i));
      continue;
    }
    if (dim.constant() < 0 || dim.constant() > kMaxDimSize) {
      return invalid_argument("type ", type, " has size ", dim, "; expected one in [0, ",
                              kMaxDimSize, "]");
    }
    constants.push_back(dim.constant());
  }
  return as_status(checked_byte_size(type.dtype, constants));
}

Result<std::vector<TensorType>> within_limits(std::vector<TensorType> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_limits(outputs[i]).with_context(str_cat("output ", i)));
  }
  return outputs;
}

}  // namespace tutti
