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

GrpcInferenceService::Reactor* GrpcInferenceService::TraceSetting(
    Context* context, const inference::TraceSettingRequest*, inference::TraceSettingResponse*) {
  if (Reactor* refused = refuse_restricted(context, CallGroup::kTrace)) return refused;
  return refuse(context, "TraceSetting");
}

}  // namespace tutti::server
