// grpc.health.v1.Health: what probes ask.
#pragma once

#include <health.grpc.pb.h>

#include <utility>

#include "server/restrictions.h"
#include "server/service.h"

namespace tutti::server {

// Check answers SERVING while the server is ready, for "" and "inference.GRPCInferenceService";
// NOT_FOUND for other names. Watch is UNIMPLEMENTED, which tells clients to poll Check.
class GrpcHealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  GrpcHealthService(InferenceService& service, Restrictions restrictions)
      : service_(service), restrictions_(std::move(restrictions)) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  InferenceService& service_;
  const Restrictions restrictions_;
};

}  // namespace tutti::server
