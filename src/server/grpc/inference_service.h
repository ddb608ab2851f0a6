// inference.GRPCInferenceService over InferenceService.
#pragma once

#include <grpc_service.grpc.pb.h>

#include "server/grpc/infer_messages.h"
#include "server/service.h"

namespace tutti::server {

// Every call is answered without blocking gRPC's threads: inferences finish on the instance's
// thread, loads on the service's. The nine calls for shared memory, tracing, log settings and
// streams answer UNIMPLEMENTED.
class GrpcInferenceService final : public inference::GRPCInferenceService::CallbackService {
 public:
  // `service` outlives the gRPC server.
  explicit GrpcInferenceService(InferenceService& service) : service_(service) {
    SetMessageAllocatorFor_ModelInfer(&messages_);
  }

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ServerLive(Context*, const inference::ServerLiveRequest*,
                      inference::ServerLiveResponse*) override;
  Reactor* ServerReady(Context*, const inference::ServerReadyRequest*,
                       inference::ServerReadyResponse*) override;
  Reactor* ModelReady(Context*, const inference::ModelReadyRequest*,
                      inference::ModelReadyResponse*) override;
  Reactor* ServerMetadata(Context*, const inference::ServerMetadataRequest*,
                          inference::ServerMetadataResponse*) override;
  Reactor* ModelMetadata(Context*, const inference::ModelMetadataRequest*,
                         inference::ModelMetadataResponse*) override;
  Reactor* ModelConfig(Context*, const inference::ModelConfigRequest*,
                       inference::ModelConfigResponse*) override;
  Reactor* ModelInfer(Context*, const inference::ModelInferRequest*,
                      inference::ModelInferResponse*) override;
  Reactor* ModelStatistics(Context*, const inference::ModelStatisticsRequest*,
                           inference::ModelStatisticsResponse*) override;
  Reactor* RepositoryIndex(Context*, const inference::RepositoryIndexRequest*,
                           inference::RepositoryIndexResponse*) override;
  Reactor* RepositoryModelLoad(Context*, const inference::RepositoryModelLoadRequest*,
                               inference::RepositoryModelLoadResponse*) override;
  Reactor* RepositoryModelUnload(Context*, const inference::RepositoryModelUnloadRequest*,
                                 inference::RepositoryModelUnloadResponse*) override;

  grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
  ModelStreamInfer(Context*) override;
  Reactor* SystemSharedMemoryStatus(Context*, const inference::SystemSharedMemoryStatusRequest*,
                                    inference::SystemSharedMemoryStatusResponse*) override;
  Reactor* SystemSharedMemoryRegister(Context*, const inference::SystemSharedMemoryRegisterRequest*,
                                      inference::SystemSharedMemoryRegisterResponse*) override;
  Reactor* SystemSharedMemoryUnregister(Context*,
                                        const inference::SystemSharedMemoryUnregisterRequest*,
                                        inference::SystemSharedMemoryUnregisterResponse*) override;
  Reactor* CudaSharedMemoryStatus(Context*, const inference::CudaSharedMemoryStatusRequest*,
                                  inference::CudaSharedMemoryStatusResponse*) override;
  Reactor* CudaSharedMemoryRegister(Context*, const inference::CudaSharedMemoryRegisterRequest*,
                                    inference::CudaSharedMemoryRegisterResponse*) override;
  Reactor* CudaSharedMemoryUnregister(Context*, const inference::CudaSharedMemoryUnregisterRequest*,
                                      inference::CudaSharedMemoryUnregisterResponse*) override;
  Reactor* TraceSetting(Context*, const inference::TraceSettingRequest*,
                        inference::TraceSettingResponse*) override;
  Reactor* LogSettings(Context*, const inference::LogSettingsRequest*,
                       inference::LogSettingsResponse*) override;

 private:
  InferenceService& service_;
  InferMessageAllocator messages_;
};

}  // namespace tutti::server
