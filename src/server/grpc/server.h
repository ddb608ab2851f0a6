// The gRPC front end: listens, and hands calls to the services of this folder.
#pragma once

#include <grpc/compression.h>
#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/grpc/health_service.h"
#include "server/grpc/inference_service.h"
#include "server/log.h"
#include "server/service.h"

namespace tutti::server {

// Files in PEM. Mutual: clients must show a certificate that `root_cert` signed.
struct GrpcTls {
  bool is_used = false;
  bool is_mutual = false;
  std::string server_cert;
  std::string server_key;
  std::string root_cert;
};

struct GrpcOptions {
  std::string address = "0.0.0.0";
  int port = 8001;           // 0: any free one
  bool reuses_port = false;  // several servers may listen on the port
  GrpcTls tls;
  Restrictions restrictions;
  // Of what a call answers.
  grpc_compression_level compression = GRPC_COMPRESS_LEVEL_NONE;
  // gRPC's own settings (grpc/impl/codegen/grpc_types.h), such as keep-alive times.
  std::map<std::string, int> channel_arguments;
};

class GrpcServer {
 public:
  // Listens when it returns. UNAVAILABLE when the address cannot be bound; INVALID_ARGUMENT names a
  // certificate's file that cannot be read. `service` outlives it.
  static Result<std::unique_ptr<GrpcServer>> start(InferenceService& service,
                                                   const GrpcOptions& options, const Log& log);
  ~GrpcServer();  // as shutdown(now)

  int port() const { return port_; }
  const std::string& endpoint() const { return endpoint_; }  // "127.0.0.1:8001"

  // Takes no new calls, waits for those in flight and cancels what is left at `deadline`; returns
  // when all are answered. Once.
  void shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer(InferenceService& service, const Restrictions& restrictions)
      : inference_(service, restrictions), health_(service, restrictions) {}

  GrpcInferenceService inference_;
  GrpcHealthService health_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::string endpoint_;
};

}  // namespace tutti::server
