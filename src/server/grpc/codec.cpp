#include "server/grpc/codec.h"

#include <limits>
#include <list>
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
  std::shared_ptr<const void> message;
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

Result<InferInput> decode_input(const inference::ModelInferRequest& message, int index,
                                Buffers* converted) {
  const auto& tensor = message.inputs(index);
  const std::string label = str_cat("input '", printable(tensor.name()), "'");
  TUTTI_RETURN_IF_ERROR(check_tensor_parameters(label, decode_parameters(tensor.parameters())));
  InferInput input;
  input.name = tensor.name();
  input.shape.assign(tensor.shape().begin(), tensor.shape().end());
  const auto dtype = parse_protocol_type(printable(tensor.datatype()));
  if (!dtype.ok()) return dtype.status().with_context(label);
  input.dtype = *dtype;
  if (message.raw_input_contents_size() == 0) {
    const auto data = contents_bytes(tensor.contents(), input.dtype, converted);
    if (!data.ok()) return data.status().with_context(label);
    input.data = *data;
  } else if (tensor.has_contents()) {
    return invalid_argument(label,
                            ": contents is set beside raw_input_contents, expected one of "
                            "the two for all inputs");
  } else {
    input.data = std::as_bytes(std::span(message.raw_input_contents(index)));
  }
  return input;
}

void encode_duration(const DurationStatistic& from, inference::StatisticDuration* to) {
  to->set_count(from.count);
  to->set_ns(from.ns);
}

template <class Message>
void encode_phases(const PhaseStatistics& from, Message* to) {
  encode_duration(from.compute_input, to->mutable_compute_input());
  encode_duration(from.compute_infer, to->mutable_compute_infer());
  encode_duration(from.compute_output, to->mutable_compute_output());
}

}  // namespace

Result<InferRequest> decode_request(const inference::ModelInferRequest& message,
                                    std::shared_ptr<const void> owner) {
  InferRequest request;
  request.model_name = message.model_name();
  request.model_version = message.model_version();
  request.id = message.id();
  request.parameters = decode_parameters(message.parameters());
  const int raw = message.raw_input_contents_size();
  if (raw != 0 && raw != message.inputs_size()) {
    return invalid_argument("raw_input_contents has ", raw, " buffers, expected ",
                            message.inputs_size(), ", one for each input");
  }
  auto memory = std::make_shared<TensorMemory>();
  memory->message = std::move(owner);
  for (int i = 0; i < message.inputs_size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(InferInput input, decode_input(message, i, &memory->converted));
    request.inputs.push_back(std::move(input));
  }
  for (const auto& output : message.outputs()) {
    TUTTI_RETURN_IF_ERROR(
        check_tensor_parameters(str_cat("output '", printable(output.name()), "'"),
                                decode_parameters(output.parameters())));
    request.outputs.push_back(output.name());
  }
  request.owner = std::move(memory);
  return request;
}

Result<std::byte*> ResponseSink::allocate(std::size_t position, const OutputDesc& output,
                                          std::size_t bytes) {
  // Names, shapes and lengths travel too: leave them a megabyte.
  constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max() - (1U << 20);
  if (bytes > kLargest - total_) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat("output '", output.name, "' of ", bytes, " bytes makes a response above ",
                          kLargest, " bytes, the most that a gRPC message holds"));
  }
  total_ += bytes;
  while (static_cast<std::size_t>(message_->raw_output_contents_size()) <= position) {
    message_->add_raw_output_contents();
  }
  std::string* buffer = message_->mutable_raw_output_contents(static_cast<int>(position));
  buffer->resize(bytes);
  return reinterpret_cast<std::byte*>(buffer->data());
}

void encode_response(const InferResponse& response, inference::ModelInferResponse* message) {
  message->set_model_name(response.model_name);
  message->set_model_version(response.model_version);
  message->set_id(response.id);
  for (const OutputDesc& output : response.outputs) {
    auto* tensor = message->add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(std::string(protocol_type_name(output.dtype)));
    tensor->mutable_shape()->Add(output.shape.begin(), output.shape.end());
  }
}

void encode_metadata(const ModelMetadata& metadata, inference::ModelMetadataResponse* message) {
  message->set_name(metadata.name);
  message->set_platform(metadata.platform);
  for (const std::string& version : metadata.versions) message->add_versions(version);
  const auto encode = [](const std::vector<TensorSpec>& specs, auto* tensors) {
    for (const TensorSpec& spec : specs) {
      auto* tensor = tensors->Add();
      tensor->set_name(spec.name);
      tensor->set_datatype(std::string(protocol_type_name(spec.dtype)));
      tensor->mutable_shape()->Add(spec.dims.begin(), spec.dims.end());
    }
  };
  encode(metadata.signature.inputs, message->mutable_inputs());
  encode(metadata.signature.outputs, message->mutable_outputs());
}

void encode_statistics(const std::vector<ModelStatisticsEntry>& entries,
                       inference::ModelStatisticsResponse* message) {
  for (const ModelStatisticsEntry& entry : entries) {
    const StatisticsSnapshot& statistics = entry.statistics;
    auto* model = message->add_model_stats();
    model->set_name(entry.name);
    model->set_version(entry.version);
    model->set_last_inference(statistics.last_inference_ms);
    model->set_inference_count(statistics.inference_count);
    model->set_execution_count(statistics.execution_count);
    auto* totals = model->mutable_inference_stats();
    encode_duration(statistics.success, totals->mutable_success());
    encode_duration(statistics.fail, totals->mutable_fail());
    encode_duration(statistics.queue, totals->mutable_queue());
    encode_phases(statistics.phases, totals);
    encode_duration({}, totals->mutable_cache_hit());
    encode_duration({}, totals->mutable_cache_miss());
    for (const auto& [size, phases] : statistics.by_batch_size) {
      auto* batch = model->add_batch_stats();
      batch->set_batch_size(static_cast<std::uint64_t>(size));
      encode_phases(phases, batch);
    }
  }
}

}  // namespace tutti::server
