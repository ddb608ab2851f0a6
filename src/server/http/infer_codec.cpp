#include "server/http/infer_codec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/datatype.h"
#include "server/http/text.h"
#include "server/json/tensor.h"
#include "server/json/write.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using Kind = JsonReader::Kind;

// What a request's tensors point into.
struct TensorMemory {
  std::shared_ptr<const void> body;
  std::vector<ByteBuffer> converted;
};

Result<Dims> read_shape(JsonReader& reader) {
  Dims shape;
  TUTTI_RETURN_IF_ERROR(reader.read_array([&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const JsonNumber number, reader.read_number());
    const auto* size = std::get_if<std::int64_t>(&number);
    if (size == nullptr) return invalid_argument("'shape' holds a number that is no size");
    shape.push_back(*size);
    return Status();
  }));
  return shape;
}

// The parts of one input or output as they stand in the JSON.
struct TensorMembers {
  std::string name;
  std::optional<std::string> datatype;
  std::optional<Dims> shape;
  std::optional<std::string_view> data;
  ParameterMap parameters;
};

Result<TensorMembers> read_tensor(JsonReader& reader) {
  TensorMembers tensor;
  bool has_name = false;
  TUTTI_RETURN_IF_ERROR(reader.read_object([&](const std::string& member) -> Status {
    if (member == "name") {
      has_name = true;
      TUTTI_ASSIGN_OR_RETURN(tensor.name, reader.read_string());
    } else if (member == "datatype") {
      TUTTI_ASSIGN_OR_RETURN(tensor.datatype, reader.read_string());
    } else if (member == "shape") {
      TUTTI_ASSIGN_OR_RETURN(tensor.shape, read_shape(reader));
    } else if (member == "parameters") {
      TUTTI_ASSIGN_OR_RETURN(tensor.parameters, read_parameters(reader));
    } else if (member == "data") {
      // Read when the datatype is known, which may stand behind it.
      return reader.skip(&tensor.data.emplace());
    } else {
      return reader.skip();
    }
    return Status();
  }));
  if (!has_name) return invalid_argument("'name' is missing");
  return tensor;
}

class InferDecoder {
 public:
  explicit InferDecoder(const HttpRequest& http) : http_(http) {}

  Result<HttpInfer> decode() {
    std::size_t json_size = http_.body.size();
    if (const auto header = http_.header("Inference-Header-Content-Length"); !header.empty()) {
      const auto size = parse_size(header);
      if (!size || *size > http_.body.size()) {
        return invalid_argument("Inference-Header-Content-Length '", printable(header),
                                "': expected a number of bytes up to ", http_.body.size(),
                                ", the body's length");
      }
      json_size = *size;
    }
    binary_ = http_.body.subspan(json_size);
    JsonReader reader(http_.text().substr(0, json_size));
    memory_->body = http_.owner;
    TUTTI_RETURN_IF_ERROR(read_request(reader));
    TUTTI_RETURN_IF_ERROR(reader.expect_end());
    if (!has_inputs_) return invalid_argument("'inputs' is missing");
    if (!binary_.empty()) {
      return invalid_argument("the body has ", binary_.size(),
                              " bytes more than its JSON and the inputs' binary_data_size");
    }
    infer_.request.owner = std::move(memory_);
    finish_outputs();
    return std::move(infer_);
  }

 private:
  Status read_request(JsonReader& reader) {
    InferRequest& request = infer_.request;
    return reader.read_object([&](const std::string& member) -> Status {
      if (member == "id") {
        TUTTI_ASSIGN_OR_RETURN(request.id, reader.read_string());
      } else if (member == "parameters") {
        TUTTI_ASSIGN_OR_RETURN(request.parameters, read_parameters(reader));
      } else if (member == "inputs") {
        has_inputs_ = true;
        return reader.read_array([&] { return read_input(reader); });
      } else if (member == "outputs") {
        return reader.read_array([&] { return read_output(reader); });
      } else {
        return reader.skip();
      }
      return Status();
    });
  }

  Status read_input(JsonReader& reader) {
    auto tensor = read_tensor(reader);
    if (!tensor.ok()) {
      return tensor.status().with_context(str_cat("input ", infer_.request.inputs.size()));
    }
    InferInput input;
    input.name = std::move(tensor->name);
    const std::string label = str_cat("input '", printable(input.name), "'");
    if (const Status status = fill_input(*tensor, label, &input); !status.ok()) {
      return status.message().starts_with(label) ? status : status.with_context(label);
    }
    infer_.request.inputs.push_back(std::move(input));
    return Status();
  }

  Status fill_input(const TensorMembers& tensor, const std::string& label, InferInput* input) {
    if (!tensor.shape) return invalid_argument("'shape' is missing");
    if (!tensor.datatype) return invalid_argument("'datatype' is missing");
    input->shape = *tensor.shape;
    TUTTI_ASSIGN_OR_RETURN(input->dtype, parse_protocol_type(printable(*tensor.datatype)));
    TUTTI_ASSIGN_OR_RETURN(TensorParameters parameters,
                           parse_tensor_parameters(label, tensor.parameters));
    const int places = (tensor.data ? 1 : 0) + (parameters.binary_size ? 1 : 0) +
                       (parameters.shared_memory ? 1 : 0);
    if (places != 1) {
      return invalid_argument(
          "expected exactly one of 'data', parameter 'binary_data_size' and parameter "
          "'shared_memory_region', got ",
          places);
    }
    input->shared_memory = std::move(parameters.shared_memory);
    if (parameters.binary_size) return take_binary(*parameters.binary_size, input);
    if (!tensor.data) return Status();
    TUTTI_ASSIGN_OR_RETURN(ByteBuffer bytes, tensor_from_json(*tensor.data, input->dtype));
    input->data = memory_->converted.emplace_back(std::move(bytes)).span();
    return Status();
  }

  Status take_binary(std::uint64_t size, InferInput* input) {
    if (size > binary_.size()) {
      return invalid_argument("binary_data_size ", size, ", but ", binary_.size(),
                              " bytes are left of the body");
    }
    input->data = binary_.first(size);
    binary_ = binary_.subspan(size);
    // Elements must lie where the processor may read them; others are moved.
    const std::size_t width = std::max<std::size_t>(1, dtype_size(input->dtype));
    if (reinterpret_cast<std::uintptr_t>(input->data.data()) % width == 0) return Status();
    ByteBuffer& moved = memory_->converted.emplace_back();
    if (!moved.append(input->data.data(), input->data.size())) {
      return Status(StatusCode::kResourceExhausted, "no memory left for the input");
    }
    input->data = moved.span();
    return Status();
  }

  Status read_output(JsonReader& reader) {
    auto tensor = read_tensor(reader);
    if (!tensor.ok()) {
      return tensor.status().with_context(str_cat("output ", infer_.request.outputs.size()));
    }
    TUTTI_ASSIGN_OR_RETURN(
        TensorParameters parameters,
        parse_tensor_parameters(str_cat("output '", printable(tensor->name), "'"),
                                tensor->parameters));
    infer_.request.outputs.push_back(std::move(tensor->name));
    infer_.request.output_options.push_back(
        {std::move(parameters.shared_memory), parameters.class_count});
    binary_wishes_.push_back(parameters.is_binary);
    return Status();
  }

  // `binary_data_output` may stand behind the outputs.
  void finish_outputs() {
    auto& options = infer_.request.output_options;
    const auto& wanted = infer_.request.parameters;
    if (const auto found = wanted.find("binary_data_output"); found != wanted.end()) {
      const auto* is_binary = std::get_if<bool>(&found->second);
      infer_.is_binary_by_default = is_binary != nullptr && *is_binary;
    }
    for (const auto& wish : binary_wishes_) {
      infer_.is_binary.push_back(wish.value_or(infer_.is_binary_by_default));
    }
    const bool has_options = std::any_of(
        options.begin(), options.end(),
        [](const OutputOptions& option) { return option.shared_memory || option.class_count > 0; });
    if (!has_options) options.clear();
  }

  const HttpRequest& http_;
  HttpInfer infer_;
  std::shared_ptr<TensorMemory> memory_ = std::make_shared<TensorMemory>();
  std::span<const std::byte> binary_;  // not yet taken
  std::vector<std::optional<bool>> binary_wishes_;
  bool has_inputs_ = false;
};

}  // namespace

Result<ParameterValue> read_parameter(JsonReader& reader) {
  TUTTI_ASSIGN_OR_RETURN(const Kind kind, reader.peek());
  if (kind == Kind::kBool) {
    TUTTI_ASSIGN_OR_RETURN(const bool truth, reader.read_bool());
    return ParameterValue(truth);
  }
  if (kind == Kind::kString) {
    TUTTI_ASSIGN_OR_RETURN(std::string text, reader.read_string());
    return ParameterValue(std::move(text));
  }
  if (kind == Kind::kNumber) {
    TUTTI_ASSIGN_OR_RETURN(const JsonNumber number, reader.read_number());
    return std::visit([](auto value) { return ParameterValue(value); }, number);
  }
  return invalid_argument("expected true, false, a number or a text");
}

Result<ParameterMap> read_parameters(JsonReader& reader) {
  ParameterMap parameters;
  TUTTI_RETURN_IF_ERROR(reader.read_object([&](const std::string& name) -> Status {
    auto value = read_parameter(reader);
    if (!value.ok()) {
      return value.status().with_context(str_cat("parameter '", printable(name), "'"));
    }
    parameters[name] = *std::move(value);
    return Status();
  }));
  return parameters;
}

Result<HttpInfer> decode_infer(const HttpRequest& http) { return InferDecoder(http).decode(); }

Result<HttpInfer> decode_raw_infer(const HttpRequest& http, const ModelSignature& signature,
                                   bool is_batched) {
  if (signature.inputs.size() != 1) {
    return invalid_argument(
        "a raw body (Inference-Header-Content-Length: 0) needs a model of one "
        "input, this one has ",
        signature.inputs.size());
  }
  const TensorSpec& spec = signature.inputs.front();
  auto memory = std::make_shared<TensorMemory>();
  memory->body = http.owner;
  InferInput input{spec.name, spec.dtype, spec.dims, http.body};
  if (spec.dtype == DType::kString) {  // one element, whose length the body does not hold
    ByteBuffer& element = memory->converted.emplace_back();
    const auto length = static_cast<std::uint32_t>(http.body.size());
    if (http.body.size() != length || !element.append(&length, sizeof(length)) ||
        !element.append(http.body.data(), http.body.size())) {
      return invalid_argument("input '", spec.name, "': ", http.body.size(),
                              " bytes, expected less than 2^32");
    }
    input.data = element.span();
  }
  if (is_batched) input.shape.front() = 1;
  std::size_t known = std::max<std::size_t>(1, dtype_size(spec.dtype));
  std::int64_t* open = nullptr;
  for (std::int64_t& size : input.shape) {
    if (size >= 0) {
      known *= static_cast<std::size_t>(size);
    } else if (open != nullptr) {
      return invalid_argument("input '", spec.name,
                              "': more than one size is open, expected a request with a shape");
    } else {
      open = &size;
    }
  }
  if (open != nullptr) {
    const std::size_t content = spec.dtype == DType::kString ? 1 : http.body.size();
    *open = known == 0 ? 0 : static_cast<std::int64_t>(content / known);
  }
  HttpInfer infer;
  infer.is_binary_by_default = true;
  infer.request.inputs.push_back(std::move(input));
  infer.request.owner = std::move(memory);
  return infer;
}

void append_parameters_json(const ParameterMap& parameters, std::string* out) {
  bool is_first = true;
  for (const auto& [name, value] : parameters) {
    if (!is_first) out->push_back(',');
    is_first = false;
    append_json_string(name, out);
    out->push_back(':');
    if (const auto* text = std::get_if<std::string>(&value)) {
      append_json_string(*text, out);
    } else {
      std::visit(
          [&](const auto& number) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(number)>, std::string>) {
              out->append(str_cat(number));
            }
          },
          value);
    }
  }
}

Result<HttpResponse> encode_infer(const HttpInfer& infer, const InferResponse& response,
                                  std::shared_ptr<const BufferSink> sink) {
  HttpResponse http;
  std::string& json = http.text;
  json = "{";
  if (!response.id.empty()) json += str_cat("\"id\":", json_string(response.id), ",");
  json += str_cat("\"model_name\":", json_string(response.model_name),
                  ",\"model_version\":", json_string(response.model_version), ",");
  if (!response.parameters.empty()) {
    json += "\"parameters\":{";
    append_parameters_json(response.parameters, &json);
    json += "},";
  }
  json += "\"outputs\":[";
  bool has_binary = false;
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    const OutputDesc& output = response.outputs[i];
    const bool is_binary =
        i < infer.is_binary.size() ? infer.is_binary[i] : infer.is_binary_by_default;
    json += str_cat(i == 0 ? "" : ",", "{\"name\":", json_string(output.name), ",\"datatype\":\"",
                    protocol_type_name(output.dtype), "\",\"shape\":[");
    for (std::size_t d = 0; d < output.shape.size(); ++d) {
      json += str_cat(d == 0 ? "" : ",", output.shape[d]);
    }
    json += "]";
    // Nothing for those in shared memory: the C++ client takes "parameters" for binary data.
    if (!output.shared_memory && is_binary) {
      has_binary = true;
      json += str_cat(",\"parameters\":{\"binary_data_size\":", sink->output(i).size(), "}");
      http.pieces.push_back(sink->output(i));
    } else if (!output.shared_memory) {
      json += ",\"data\":";
      const Status status = append_tensor_json(sink->output(i), output.dtype, &json);
      if (!status.ok()) return status.with_context(str_cat("output '", output.name, "'"));
    }
    json += "}";
  }
  json += "]}";
  if (has_binary) {
    http.content_type = "application/octet-stream";
    http.headers.emplace_back("Inference-Header-Content-Length", std::to_string(json.size()));
  }
  http.is_compressible = true;
  http.owner = std::move(sink);
  return http;
}

}  // namespace tutti::server
