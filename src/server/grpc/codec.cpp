#include "server/grpc/codec.h"

#include <algorithm>
#include <list>
#include <optional>
#include <span>
#include <utility>

#include "server/datatype.h"
#include "server/grpc/contents.h"
#include "server/names.h"
#include "server/parameters.h"

namespace tutti::server {
namespace {

using inference::InferParameter;
using Buffers = std::list<std::vector<std::byte>>;

// What a request's tensors point into.
struct TensorMemory {
  std::shared_ptr<const WireRequest> wire;
  Buffers converted;
};

template <class Map>
ParameterMap decode_parameters(const Map& parameters) {
  ParameterMap decoded;
  for (const auto& [name, value] : parameters) {
    switch (value.parameter_choice_case()) {
      case InferParameter::kBoolParam: decoded[name] = value.bool_param(); break;
      case InferParameter::kInt64Param: decoded[name] = std::int64_t{value.int64_param()}; break;
      case InferParameter::kUint64Param: decoded[name] = std::uint64_t{value.uint64_param()}; break;
      case InferParameter::kDoubleParam: decoded[name] = value.double_param(); break;
      case InferParameter::kStringParam: decoded[name] = value.string_param(); break;
      case InferParameter::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return decoded;
}

bool is_in_shared_memory(const inference::ModelInferRequest::InferInputTensor& tensor) {
  return tensor.parameters().contains("shared_memory_region");
}

// `raw`: the input's raw contents, none when the request has none.
Result<InferInput> decode_input(const inference::ModelInferRequest::InferInputTensor& tensor,
                                const std::optional<std::span<const std::byte>>& raw,
                                Buffers* converted) {
  const std::string label = str_cat("input '", printable(tensor.name()), "'");
  TUTTI_ASSIGN_OR_RETURN(TensorParameters parameters,
                         parse_tensor_parameters(label, decode_parameters(tensor.parameters())));
  InferInput input;
  input.name = tensor.name();
  input.shape.assign(tensor.shape().begin(), tensor.shape().end());
  const auto dtype = parse_protocol_type(printable(tensor.datatype()));
  if (!dtype.ok()) return dtype.status().with_context(label);
  input.dtype = *dtype;
  input.shared_memory = std::move(parameters.shared_memory);
  if (input.shared_memory) {
    if (!tensor.has_contents()) return input;
    return invalid_argument(label,
                            ": contents is set beside shared memory, expected one of the two");
  }
  if (!raw) {
    const auto data = contents_bytes(tensor.contents(), input.dtype, converted);
    if (!data.ok()) return data.status().with_context(label);
    input.data = *data;
  } else if (tensor.has_contents()) {
    return invalid_argument(label,
                            ": contents is set beside raw_input_contents, expected one of "
                            "the two for all inputs");
  } else {
    input.data = *raw;
  }
  return input;
}

Status decode_outputs(const inference::ModelInferRequest& message, InferRequest* request) {
  bool has_options = false;
  for (const auto& output : message.outputs()) {
    TUTTI_ASSIGN_OR_RETURN(
        TensorParameters parameters,
        parse_tensor_parameters(str_cat("output '", printable(output.name()), "'"),
                                decode_parameters(output.parameters())));
    request->outputs.push_back(output.name());
    has_options = has_options || parameters.shared_memory || parameters.class_count > 0;
    request->output_options.push_back(
        {std::move(parameters.shared_memory), parameters.class_count});
  }
  if (!has_options) request->output_options.clear();
  return Status();
}

void encode_parameter(const ParameterValue& value, InferParameter* to) {
  if (const auto* truth = std::get_if<bool>(&value)) to->set_bool_param(*truth);
  if (const auto* number = std::get_if<std::int64_t>(&value)) to->set_int64_param(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) to->set_uint64_param(*number);
  if (const auto* number = std::get_if<double>(&value)) to->set_double_param(*number);
  if (const auto* text = std::get_if<std::string>(&value)) to->set_string_param(*text);
}

}  // namespace

Result<InferRequest> decode_request(std::shared_ptr<const WireRequest> wire) {
  const inference::ModelInferRequest& message = wire->fields();
  InferRequest request;
  request.model_name = message.model_name();
  request.model_version = message.model_version();
  request.id = message.id();
  request.parameters = decode_parameters(message.parameters());
  // Inputs in shared memory have no raw contents.
  const auto& inputs = message.inputs();
  const auto shared = std::count_if(inputs.begin(), inputs.end(), is_in_shared_memory);
  const auto expected = static_cast<std::size_t>(inputs.size() - shared);
  const auto raw = wire->raw_contents();
  if (!raw.empty() && raw.size() != expected) {
    return invalid_argument("raw_input_contents has ", raw.size(), " buffers, expected ", expected,
                            ", one for each input", shared > 0 ? " outside shared memory" : "");
  }
  auto memory = std::make_shared<TensorMemory>();
  memory->wire = std::move(wire);
  std::size_t next = 0;
  for (const auto& tensor : inputs) {
    std::optional<std::span<const std::byte>> bytes;
    if (!raw.empty() && !is_in_shared_memory(tensor)) bytes = raw[next++];
    TUTTI_ASSIGN_OR_RETURN(InferInput input, decode_input(tensor, bytes, &memory->converted));
    request.inputs.push_back(std::move(input));
  }
  TUTTI_RETURN_IF_ERROR(decode_outputs(message, &request));
  request.owner = std::move(memory);
  return request;
}

inference::ModelInferResponse encode_response(const InferResponse& response) {
  inference::ModelInferResponse message;
  message.set_model_name(response.model_name);
  message.set_model_version(response.model_version);
  message.set_id(response.id);
  for (const auto& [name, value] : response.parameters) {
    encode_parameter(value, &(*message.mutable_parameters())[name]);
  }
  for (const OutputDesc& output : response.outputs) {
    auto* tensor = message.add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(std::string(protocol_type_name(output.dtype)));
    tensor->mutable_shape()->Add(output.shape.begin(), output.shape.end());
    if (!output.shared_memory) continue;
    auto& parameters = *tensor->mutable_parameters();
    parameters["shared_memory_region"].set_string_param(output.shared_memory->region);
    parameters["shared_memory_offset"].set_uint64_param(output.shared_memory->offset);
    parameters["shared_memory_byte_size"].set_uint64_param(output.shared_memory->byte_size);
  }
  return message;
}

}  // namespace tutti::server
