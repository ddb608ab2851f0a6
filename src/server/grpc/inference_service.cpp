#include "server/grpc/inference_service.h"

#include <string_view>
#include <utility>

#include "server/grpc/access.h"
#include "server/grpc/codec.h"
#include "server/grpc/infer_call.h"
#include "server/grpc/status.h"
#include "server/grpc/stream_call.h"
#include "server/grpc/trace_context.h"
#include "server/messages.h"
#include "server/names.h"

namespace tutti::server {
namespace {

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

class RefusedStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const Status& status) { Finish(to_grpc(status)); }
  void OnDone() override { delete this; }
};

ParameterMap decode_log_changes(const inference::LogSettingsRequest& request) {
  using Value = inference::LogSettingsRequest::SettingValue;
  ParameterMap changes;
  for (const auto& [name, value] : request.settings()) {
    switch (value.parameter_choice_case()) {
      case Value::kBoolParam: changes[name] = value.bool_param(); break;
      case Value::kUint32Param: changes[name] = std::uint64_t{value.uint32_param()}; break;
      case Value::kStringParam: changes[name] = value.string_param(); break;
      case Value::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return changes;
}

template <class Parameters>
ParameterMap decode_control_parameters(const Parameters& parameters) {
  using Parameter = inference::ModelRepositoryParameter;
  ParameterMap decoded;
  for (const auto& [name, value] : parameters) {
    switch (value.parameter_choice_case()) {
      case Parameter::kBoolParam: decoded[name] = value.bool_param(); break;
      case Parameter::kInt64Param: decoded[name] = std::int64_t{value.int64_param()}; break;
      case Parameter::kStringParam: decoded[name] = value.string_param(); break;
      case Parameter::kBytesParam: decoded[name] = value.bytes_param(); break;
      case Parameter::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return decoded;
}

}  // namespace

GrpcInferenceService::Reactor* GrpcInferenceService::refuse_restricted(Context* context,
                                                                       CallGroup group) const {
  const Status status = check_access(*context, restrictions_, group);
  return status.ok() ? nullptr : finish(context, status);
}

GrpcInferenceService::Reactor* GrpcInferenceService::ServerLive(
    Context* context, const inference::ServerLiveRequest*,
    inference::ServerLiveResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kHealth)) return refused;
  response->set_live(service_.is_live());
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ServerReady(
    Context* context, const inference::ServerReadyRequest*,
    inference::ServerReadyResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kHealth)) return refused;
  response->set_ready(service_.is_ready());
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelReady(
    Context* context, const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kHealth)) return refused;
  const auto is_ready = service_.is_model_ready(request->name(), request->version());
  if (is_ready.ok()) response->set_ready(*is_ready);
  return finish(context, is_ready.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ServerMetadata(
    Context* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kMetadata)) return refused;
  encode_server_metadata(service_.server_metadata(), response);
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelMetadata(
    Context* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kMetadata)) return refused;
  const auto metadata = service_.model_metadata(request->name(), request->version());
  if (metadata.ok()) encode_metadata(*metadata, response);
  return finish(context, metadata.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelConfig(
    Context* context, const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kModelConfig)) return refused;
  auto config = service_.model_config(request->name(), request->version());
  if (config.ok()) *response->mutable_config() = *std::move(config);
  return finish(context, config.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelInfer(Context* context,
                                                                const grpc::ByteBuffer* request,
                                                                grpc::ByteBuffer* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kInference)) return refused;
  // gRPC has no use for the request's bytes any more, but would keep them until the call ends.
  return InferCall::start(service_, *context, const_cast<grpc::ByteBuffer*>(request), response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcInferenceService::ModelStreamInfer(
    Context* context) {
  const Status status = check_access(*context, restrictions_, CallGroup::kInference);
  if (!status.ok()) return new RefusedStream(status);
  return StreamCall::start(service_, trace_context(*context));
}

GrpcInferenceService::Reactor* GrpcInferenceService::TraceSetting(
    Context* context, const inference::TraceSettingRequest* request,
    inference::TraceSettingResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kTrace)) return refused;
  TraceChanges changes;
  for (const auto& [name, setting] : request->settings()) {
    changes[name].assign(setting.value().begin(), setting.value().end());
  }
  const auto settings = service_.update_trace(request->model_name(), changes);
  if (!settings.ok()) return finish(context, settings.status());
  for (const auto& [name, values] : *settings) {
    auto& setting = (*response->mutable_settings())[name];
    for (const std::string& value : values) setting.add_value(value);
  }
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::LogSettings(
    Context* context, const inference::LogSettingsRequest* request,
    inference::LogSettingsResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kLogging)) return refused;
  const auto settings = service_.update_log(decode_log_changes(*request));
  if (!settings.ok()) return finish(context, settings.status());
  for (const auto& [name, value] : *settings) {
    auto& setting = (*response->mutable_settings())[name];
    if (const auto* truth = std::get_if<bool>(&value)) setting.set_bool_param(*truth);
    if (const auto* text = std::get_if<std::string>(&value)) setting.set_string_param(*text);
    if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      setting.set_uint32_param(static_cast<std::uint32_t>(*number));
    }
  }
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kStatistics)) return refused;
  const auto entries = service_.statistics(request->name(), request->version());
  if (entries.ok()) encode_statistics(*entries, response);
  return finish(context, entries.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryIndex(
    Context* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kModelRepository)) return refused;
  const auto entries = service_.repository_index(request->repository_name(), request->ready());
  if (entries.ok()) encode_index(*entries, response);
  return finish(context, entries.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kModelRepository)) return refused;
  Reactor* reactor = context->DefaultReactor();
  service_.load_model(request->repository_name(), request->model_name(),
                      decode_control_parameters(request->parameters()),
                      [reactor](const Status& status) { reactor->Finish(to_grpc(status)); });
  return reactor;
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kModelRepository)) return refused;
  Reactor* reactor = context->DefaultReactor();
  service_.unload_model(request->repository_name(), request->model_name(),
                        decode_control_parameters(request->parameters()),
                        [reactor](const Status& status) { reactor->Finish(to_grpc(status)); });
  return reactor;
}

}  // namespace tutti::server
