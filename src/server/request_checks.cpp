#include "server/request_checks.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "server/datatype.h"
#include "server/names.h"

namespace tutti::server {
namespace {

// Also keeps an endless shape out of the error messages below.
constexpr std::size_t kMostDims = 64;

std::string input_label(const InferInput& input) {
  return str_cat("input '", printable(input.name), "'");
}

// "[1, ?, 64]": a size of -1 takes any.
std::string describe_dims(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += str_cat(i == 0 ? "" : ", ", dims[i] < 0 ? "?" : std::to_string(dims[i]));
  }
  return text + "]";
}

template <class Spec>
std::string list_names(const std::vector<Spec>& specs) {
  std::string text;
  for (const Spec& spec : specs) text += str_cat(text.empty() ? "'" : ", '", spec.name, "'");
  return text.empty() ? "none" : text;
}

const TensorSpec* find(const std::vector<TensorSpec>& specs, std::string_view name) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const TensorSpec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

// Elements are a little-endian u32 length and that many bytes, without padding.
Status check_bytes_elements(const InferInput& input, std::int64_t expected) {
  constexpr std::size_t kLength = 4;
  std::size_t offset = 0;
  std::int64_t count = 0;
  while (offset < input.data.size()) {
    const std::size_t left = input.data.size() - offset;
    if (left < kLength) {
      return invalid_argument(input_label(input), ": BYTES element ", count, " at byte ", offset,
                              " has ", left, " bytes left, expected a 4-byte length");
    }
    std::uint32_t length = 0;
    std::memcpy(&length, input.data.data() + offset, kLength);
    if (length > left - kLength) {
      return invalid_argument(input_label(input), ": BYTES element ", count, " at byte ", offset,
                              " has length ", length, ", but ", left - kLength,
                              " bytes follow its length");
    }
    offset += kLength + length;
    ++count;
  }
  if (count != expected) {
    return invalid_argument(input_label(input), ": ", count, " BYTES elements, expected ", expected,
                            " for shape ", input.shape);
  }
  return Status();
}

Status check_shape(const InferInput& input, const TensorSpec& spec) {
  if (input.shape.size() != spec.dims.size()) {
    return invalid_argument(input_label(input), ": shape ", input.shape, " has rank ",
                            input.shape.size(), ", expected rank ", spec.dims.size(), " to fit ",
                            describe_dims(spec.dims));
  }
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    if (spec.dims[i] >= 0 && input.shape[i] != spec.dims[i]) {
      return invalid_argument(input_label(input), ": shape ", input.shape, " does not fit ",
                              describe_dims(spec.dims), " at dimension ", i);
    }
  }
  return Status();
}

Status check_input(const InferInput& input, const ModelSignature& signature) {
  const TensorSpec* spec = find(signature.inputs, input.name);
  if (spec == nullptr) {
    return invalid_argument("unknown ", input_label(input), ": the model's inputs are ",
                            list_names(signature.inputs));
  }
  TUTTI_RETURN_IF_ERROR(check_input_data(input));
  if (input.dtype != spec->dtype) {
    return invalid_argument(input_label(input), ": datatype ", protocol_type_name(input.dtype),
                            ", expected ", protocol_type_name(spec->dtype));
  }
  return check_shape(input, *spec);
}

Result<std::int64_t> check_batch(const InferRequest& request, std::int64_t max_batch_size) {
  if (max_batch_size <= 0 || request.inputs.empty()) return std::int64_t{1};
  const InferInput& first = request.inputs.front();
  const std::int64_t batch = first.shape.front();
  if (batch < 1 || batch > max_batch_size) {
    return invalid_argument(input_label(first), ": batch size ", batch, " of shape ", first.shape,
                            " is outside [1, ", max_batch_size, "], the model's max_batch_size");
  }
  for (const InferInput& input : request.inputs) {
    if (input.shape.front() != batch) {
      return invalid_argument(input_label(input), ": batch size ", input.shape.front(),
                              " differs from ", batch, " of ", input_label(first));
    }
  }
  return batch;
}

Status check_outputs(const ModelSignature& signature, InferRequest* request) {
  if (request->outputs.empty()) {
    for (const TensorSpec& spec : signature.outputs) request->outputs.push_back(spec.name);
    return Status();
  }
  std::set<std::string_view> seen;
  for (const std::string& name : request->outputs) {
    if (find(signature.outputs, name) == nullptr) {
      return invalid_argument("unknown output '", printable(name), "': the model's outputs are ",
                              list_names(signature.outputs));
    }
    if (!seen.insert(name).second) {
      return invalid_argument("output '", name, "' is requested twice, expected distinct names");
    }
  }
  return Status();
}

}  // namespace

Status check_input_data(const InferInput& input) {
  if (input.shape.size() > kMostDims) {
    return invalid_argument(input_label(input), ": rank ", input.shape.size(),
                            ", expected at most ", kMostDims);
  }
  if (input.dtype == DType::kString) {
    const Result<std::int64_t> count = checked_element_count(input.shape);
    if (!count.ok()) return count.status().with_context(input_label(input));
    return check_bytes_elements(input, *count);
  }
  const Result<std::int64_t> bytes = checked_byte_size(input.dtype, input.shape);
  if (!bytes.ok()) return bytes.status().with_context(input_label(input));
  if (static_cast<std::uint64_t>(*bytes) != input.data.size()) {
    return invalid_argument(input_label(input), ": ", input.data.size(),
                            " bytes of data, expected ", *bytes, " for shape ", input.shape, " of ",
                            protocol_type_name(input.dtype));
  }
  return Status();
}

Result<std::int64_t> check_request(const ModelSignature& signature, std::int64_t max_batch_size,
                                   InferRequest* request) {
  std::set<std::string_view> seen;
  for (const InferInput& input : request->inputs) {
    if (!seen.insert(input.name).second) {
      return invalid_argument(input_label(input), " is given twice, expected distinct names");
    }
    TUTTI_RETURN_IF_ERROR(check_input(input, signature));
  }
  for (const TensorSpec& spec : signature.inputs) {
    if (!seen.contains(spec.name)) {
      return invalid_argument("input '", spec.name, "' is missing: got ",
                              list_names(request->inputs), ", expected ",
                              list_names(signature.inputs));
    }
  }
  TUTTI_RETURN_IF_ERROR(check_outputs(signature, request));
  return check_batch(*request, max_batch_size);
}

}  // namespace tutti::server
