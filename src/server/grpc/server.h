// The gRPC front end: listens, and hands calls to the services of this folder.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "server/grpc/health_service.h"
#include "server/grpc/inference_service.h"
#include "server/log.h"
#include "server/service.h"

namespace tutti::server {

struct GrpcOptions {
  std::string address = "0.0.0.0";
  int port = 8001;  // 0: any free one
};

class GrpcServer {
 public:
  // Listens when it returns. UNAVAILABLE when the address cannot be bound. `service` outlives it.
  static Result<std::unique_ptr<GrpcServer>> start(InferenceService& service,
                                                   const GrpcOptions& options, const Log& log);
  ~GrpcServer();  // as shutdown(now)

  int port() const { return port_; }
  const std::string& endpoint() const { return endpoint_; }  // "127.0.0.1:8001"

  // Takes no new calls, waits for those in flight and cancels what is left at `deadline`; returns
  // when all are answered. Once.
  void shutdown(std::chrono::system_clock::time_point deadline);

 private:
  explicit GrpcServer(InferenceService& service) : inference_(service), health_(service) {}

  GrpcInferenceService inference_;
  GrpcHealthService health_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::string endpoint_;
};

}  // namespace tutti::server
