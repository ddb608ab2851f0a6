// Shared memory calls of GRPCInferenceService.
#include <span>

#include "server/grpc/inference_service.h"
#include "server/grpc/status.h"

namespace tutti::server {
namespace {

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

}  // namespace

GrpcInferenceService::Reactor* GrpcInferenceService::SystemSharedMemoryStatus(
    Context* context, const inference::SystemSharedMemoryStatusRequest* request,
    inference::SystemSharedMemoryStatusResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  const auto entries = service_.shared_memory().system_status(request->name());
  if (!entries.ok()) return finish(context, entries.status());
  for (const SystemRegionEntry& entry : *entries) {
    auto& region = (*response->mutable_regions())[entry.name];
    region.set_name(entry.name);
    region.set_key(entry.key);
    region.set_offset(entry.offset);
    region.set_byte_size(entry.byte_size);
  }
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
    inference::SystemSharedMemoryRegisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return finish(context,
                service_.shared_memory().register_system(request->name(), request->key(),
                                                         request->offset(), request->byte_size()));
}

GrpcInferenceService::Reactor* GrpcInferenceService::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
    inference::SystemSharedMemoryUnregisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return finish(context, service_.shared_memory().unregister_system(request->name()));
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest* request,
    inference::CudaSharedMemoryStatusResponse* response) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  const auto entries = service_.shared_memory().cuda_status(request->name());
  if (!entries.ok()) return finish(context, entries.status());
  for (const CudaRegionEntry& entry : *entries) {
    auto& region = (*response->mutable_regions())[entry.name];
    region.set_name(entry.name);
    region.set_device_id(static_cast<std::uint64_t>(entry.device));
    region.set_byte_size(entry.byte_size);
  }
  return finish(context, Status());
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest* request,
    inference::CudaSharedMemoryRegisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  const auto handle = std::as_bytes(std::span(request->raw_handle()));
  return finish(context, service_.shared_memory().register_cuda(
                             request->name(), handle, request->device_id(), request->byte_size()));
}

GrpcInferenceService::Reactor* GrpcInferenceService::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest* request,
    inference::CudaSharedMemoryUnregisterResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kSharedMemory)) return refused;
  return finish(context, service_.shared_memory().unregister_cuda(request->name()));
}

}  // namespace tutti::server
