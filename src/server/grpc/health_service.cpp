#include "server/grpc/health_service.h"

#include <grpc_service.grpc.pb.h>

#include "server/grpc/access.h"
#include "server/grpc/status.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class RefusedWatch final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  RefusedWatch() { Finish(to_grpc(unimplemented("Watch is not supported, expected Check"))); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* GrpcHealthService::Check(grpc::CallbackServerContext* context,
                                                   const HealthCheckRequest* request,
                                                   HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (const Status status = check_access(*context, restrictions_, CallGroup::kHealth);
      !status.ok()) {
    reactor->Finish(to_grpc(status));
    return reactor;
  }
  const std::string& name = request->service();
  if (!name.empty() && name != inference::GRPCInferenceService::service_full_name()) {
    reactor->Finish(to_grpc(not_found("service '", printable(name), "' is not known")));
    return reactor;
  }
  response->set_status(service_.is_ready() ? HealthCheckResponse::SERVING
                                           : HealthCheckResponse::NOT_SERVING);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* GrpcHealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest*) {
  return new RefusedWatch();
}

}  // namespace tutti::server
