// The calls of GRPCInferenceService that this server does not have (yet).
#include <string_view>

#include "server/grpc/inference_service.h"
#include "server/grpc/status.h"

namespace tutti::server {
namespace {

grpc::ServerUnaryReactor* refuse(grpc::CallbackServerContext* context, std::string_view call) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(unimplemented(call, " is not supported by this server")));
  return reactor;
}

}  // namespace

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest*,
    inference::CudaSharedMemoryStatusResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return refuse(context, "CudaSharedMemoryStatus");
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest*,
    inference::CudaSharedMemoryRegisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return refuse(context, "CudaSharedMemoryRegister");
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest*,
    inference::CudaSharedMemoryUnregisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return refuse(context, "CudaSharedMemoryUnregister");
}

}  // namespace tutti::server
