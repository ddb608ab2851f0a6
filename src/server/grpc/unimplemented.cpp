// The calls of GRPCInferenceService that this server does not have (yet).
#include <string_view>

#include "server/grpc/inference_service.h"
#include "server/grpc/status.h"

namespace tutti::server {
namespace {

grpc::Status refusal(std::string_view call) {
  return to_grpc(unimplemented(call, " is not supported by this server"));
}

grpc::ServerUnaryReactor* refuse(grpc::CallbackServerContext* context, std::string_view call) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(refusal(call));
  return reactor;
}

class RefusedStream final : public grpc::ServerBidiReactor<inference::ModelInferRequest,
                                                           inference::ModelStreamInferResponse> {
 public:
  RefusedStream() { Finish(refusal("ModelStreamInfer")); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
GrpcInferenceService::ModelStreamInfer(Context*) {
  return new RefusedStream();
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest*,
    inference::CudaSharedMemoryStatusResponse*) {
  return refuse(context, "CudaSharedMemoryStatus");
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest*,
    inference::CudaSharedMemoryRegisterResponse*) {
  return refuse(context, "CudaSharedMemoryRegister");
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest*,
    inference::CudaSharedMemoryUnregisterResponse*) {
  return refuse(context, "CudaSharedMemoryUnregister");
}

GrpcInferenceService::Reactor* GrpcInferenceService::TraceSetting(
    Context* context, const inference::TraceSettingRequest*, inference::TraceSettingResponse*) {
  return refuse(context, "TraceSetting");
}

GrpcInferenceService::Reactor* GrpcInferenceService::LogSettings(
    Context* context, const inference::LogSettingsRequest*, inference::LogSettingsResponse*) {
  return refuse(context, "LogSettings");
}

}  // namespace tutti::server
