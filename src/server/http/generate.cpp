#include "server/http/generate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/json/tensor.h"
#include "server/json/write.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using Kind = JsonReader::Kind;

struct TensorMemory {
  std::vector<ByteBuffer> tensors;
};

std::size_t count_elements(std::span<const std::byte> data, DType dtype) {
  if (dtype != DType::kString) return data.size() / dtype_size(dtype);
  std::size_t count = 0;
  for (std::size_t at = 0; at + 4 <= data.size(); ++count) {
    std::uint32_t length = 0;
    std::memcpy(&length, data.data() + at, 4);
    at += 4 + length;
  }
  return count;
}

Result<Dims> spread(std::size_t count, const TensorSpec& spec) {
  Dims shape = spec.dims;
  auto left = static_cast<std::int64_t>(count);
  bool fits = true;
  for (const std::int64_t size : shape) {
    if (size < 0) continue;
    fits = fits && size > 0 && left % size == 0;
    if (fits) left /= size;
  }
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    if (*size < 0) *size = std::exchange(left, 1);
  }
  if (!fits || left != 1) {
    return invalid_argument(count, " elements do not fit ", spec.dims, ", where -1 takes any size");
  }
  return shape;
}

class GenerateDecoder {
 public:
  GenerateDecoder(const HttpRequest& http, const ModelSignature& signature)
      : reader_(http.text()), signature_(signature) {}

  Result<InferRequest> decode() {
    TUTTI_RETURN_IF_ERROR(
        reader_.read_object([this](const std::string& name) { return read_member(name); }));
    TUTTI_RETURN_IF_ERROR(reader_.expect_end());
    request_.owner = std::move(memory_);
    return std::move(request_);
  }

 private:
  Status read_member(const std::string& name) {
    const auto& inputs = signature_.inputs;
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&](const TensorSpec& spec) { return spec.name == name; });
    if (input != inputs.end()) {
      const Status status = read_input(*input);
      return status.ok() ? status : status.with_context(str_cat("input '", name, "'"));
    }
    if (name == "id") {
      TUTTI_ASSIGN_OR_RETURN(request_.id, reader_.read_string());
      return Status();
    }
    TUTTI_ASSIGN_OR_RETURN(const Kind kind, reader_.peek());
    if (name == "parameters" && kind == Kind::kObject) {
      TUTTI_ASSIGN_OR_RETURN(ParameterMap parameters, read_parameters(reader_));
      request_.parameters.merge(parameters);
      return Status();
    }
    auto value = read_parameter(reader_);
    if (!value.ok()) {
      return value.status().with_context(str_cat("member '", printable(name), "'"));
    }
    request_.parameters[name] = *std::move(value);
    return Status();
  }

  Status read_input(const TensorSpec& spec) {
    std::string_view raw;
    TUTTI_RETURN_IF_ERROR(reader_.skip(&raw));
    TUTTI_ASSIGN_OR_RETURN(ByteBuffer bytes, tensor_from_json(raw, spec.dtype));
    InferInput input{spec.name, spec.dtype, {}, {}};
    TUTTI_ASSIGN_OR_RETURN(input.shape, spread(count_elements(bytes.span(), spec.dtype), spec));
    input.data = memory_->tensors.emplace_back(std::move(bytes)).span();
    request_.inputs.push_back(std::move(input));
    return Status();
  }

  JsonReader reader_;
  const ModelSignature& signature_;
  InferRequest request_;
  std::shared_ptr<TensorMemory> memory_ = std::make_shared<TensorMemory>();
};

}  // namespace

Result<InferRequest> decode_generate(const HttpRequest& http, const ModelSignature& signature) {
  return GenerateDecoder(http, signature).decode();
}

Result<std::string> encode_generate(const InferResponse& response, const BufferSink& sink) {
  std::string json = "{";
  if (!response.id.empty()) json += str_cat("\"id\":", json_string(response.id), ",");
  json += str_cat("\"model_name\":", json_string(response.model_name),
                  ",\"model_version\":", json_string(response.model_version));
  if (!response.parameters.empty()) json += ",";
  append_parameters_json(response.parameters, &json);
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    const OutputDesc& output = response.outputs[i];
    const bool is_single = element_count(output.shape) == 1;
    json += str_cat(",", json_string(output.name), is_single ? ":" : ":[");
    const Status status = append_elements_json(sink.output(i), output.dtype, &json);
    if (!status.ok()) return status.with_context(str_cat("output '", output.name, "'"));
    if (!is_single) json += "]";
  }
  return json + "}";
}

}  // namespace tutti::server
