// inference.GRPCInferenceService over InferenceService.
#pragma once

#include <grpc_service.grpc.pb.h>

#include <utility>

#include "server/restrictions.h"
#include "server/service.h"

namespace tutti::server {

// First<Second<...<Base>>>.
template <class Base, template <class> class... Layers>
struct Layered {
  using Type = Base;
};
template <class Base, template <class> class First, template <class> class... Others>
struct Layered<Base, First, Others...> {
  using Type = First<typename Layered<Base, Others...>::Type>;
};

using KServe = inference::GRPCInferenceService;
// All calls by gRPC's callback API; the two that carry tensors see their messages as bytes
// (wire.h).
using KServeCalls =
    Layered<KServe::Service, KServe::WithRawCallbackMethod_ModelInfer,
            KServe::WithRawCallbackMethod_ModelStreamInfer, KServe::WithCallbackMethod_ServerLive,
            KServe::WithCallbackMethod_ServerReady, KServe::WithCallbackMethod_ModelReady,
            KServe::WithCallbackMethod_ServerMetadata, KServe::WithCallbackMethod_ModelMetadata,
            KServe::WithCallbackMethod_ModelConfig, KServe::WithCallbackMethod_ModelStatistics,
            KServe::WithCallbackMethod_RepositoryIndex,
            KServe::WithCallbackMethod_RepositoryModelLoad,
            KServe::WithCallbackMethod_RepositoryModelUnload,
            KServe::WithCallbackMethod_SystemSharedMemoryStatus,
            KServe::WithCallbackMethod_SystemSharedMemoryRegister,
            KServe::WithCallbackMethod_SystemSharedMemoryUnregister,
            KServe::WithCallbackMethod_CudaSharedMemoryStatus,
            KServe::WithCallbackMethod_CudaSharedMemoryRegister,
            KServe::WithCallbackMethod_CudaSharedMemoryUnregister,
            KServe::WithCallbackMethod_TraceSetting, KServe::WithCallbackMethod_LogSettings>::Type;

// Every call is answered without blocking gRPC's threads: inferences finish on the instance's
// thread, loads on the service's.
class GrpcInferenceService final : public KServeCalls {
 public:
  // `service` outlives the gRPC server. Calls of restricted groups need their key in the header
  // "triton-grpc-protocol-HEADER", else they are UNAVAILABLE.
  GrpcInferenceService(InferenceService& service, Restrictions restrictions)
      : service_(service), restrictions_(std::move(restrictions)) {}

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
  Reactor* ModelInfer(Context*, const grpc::ByteBuffer*, grpc::ByteBuffer*) override;
  Reactor* ModelStatistics(Context*, const inference::ModelStatisticsRequest*,
                           inference::ModelStatisticsResponse*) override;
  Reactor* RepositoryIndex(Context*, const inference::RepositoryIndexRequest*,
                           inference::RepositoryIndexResponse*) override;
  Reactor* RepositoryModelLoad(Context*, const inference::RepositoryModelLoadRequest*,
                               inference::RepositoryModelLoadResponse*) override;
  Reactor* RepositoryModelUnload(Context*, const inference::RepositoryModelUnloadRequest*,
                                 inference::RepositoryModelUnloadResponse*) override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ModelStreamInfer(Context*) override;
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
  // A finished call when the caller may not make it; null when it may.
  Reactor* refuse_restricted(Context* context, CallGroup group) const;

  InferenceService& service_;
  const Restrictions restrictions_;
};

}  // namespace tutti::server
