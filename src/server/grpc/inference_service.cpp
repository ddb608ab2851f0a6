#include "server/grpc/inference_service.h"

#include <string_view>
#include <utility>

#include "server/grpc/codec.h"
#include "server/grpc/infer_call.h"
#include "server/grpc/status.h"
#include "server/messages.h"
#include "server/names.h"

namespace tutti::server {
namespace {

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
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

GrpcInferenceService::Reactor* GrpcInferenceService::ServerLive(
    Context* context, const inference::ServerLiveRequest*,
    inference::ServerLiveResponse* response) {
  response->set_live(service_.is_live());
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ServerReady(
    Context* context, const inference::ServerReadyRequest*,
    inference::ServerReadyResponse* response) {
  response->set_ready(service_.is_ready());
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelReady(
    Context* context, const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  const auto is_ready = service_.is_model_ready(request->name(), request->version());
  if (is_ready.ok()) response->set_ready(*is_ready);
  return finish(context, is_ready.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ServerMetadata(
    Context* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  encode_server_metadata(service_.server_metadata(), response);
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelMetadata(
    Context* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  const auto metadata = service_.model_metadata(request->name(), request->version());
  if (metadata.ok()) encode_metadata(*metadata, response);
  return finish(context, metadata.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelConfig(
    Context* context, const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  auto config = service_.model_config(request->name(), request->version());
  if (config.ok()) *response->mutable_config() = *std::move(config);
  return finish(context, config.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelInfer(Context* context,
                                                                const inference::ModelInferRequest*,
                                                                inference::ModelInferResponse*) {
  // The request and the response are those of our allocator.
  auto* messages = static_cast<InferMessages*>(context->GetRpcAllocatorState());
  return InferCall::start(service_, messages->shared_from_this());
}

GrpcInferenceService::Reactor* GrpcInferenceService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  const auto entries = service_.statistics(request->name(), request->version());
  if (entries.ok()) encode_statistics(*entries, response);
  return finish(context, entries.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryIndex(
    Context* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  const auto entries = service_.repository_index(request->repository_name(), request->ready());
  if (entries.ok()) encode_index(*entries, response);
  return finish(context, entries.status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse*) {
  Reactor* reactor = context->DefaultReactor();
  service_.load_model(request->repository_name(), request->model_name(),
                      decode_control_parameters(request->parameters()),
                      [reactor](const Status& status) { reactor->Finish(to_grpc(status)); });
  return reactor;
}

GrpcInferenceService::Reactor* GrpcInferenceService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  Reactor* reactor = context->DefaultReactor();
  service_.unload_model(request->repository_name(), request->model_name(),
                        decode_control_parameters(request->parameters()),
                        [reactor](const Status& status) { reactor->Finish(to_grpc(status)); });
  return reactor;
}

}  // namespace tutti::server
