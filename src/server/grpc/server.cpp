#include "server/grpc/server.h"

#include <grpcpp/server_builder.h>

#include <limits>

namespace tutti::server {

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(InferenceService& service,
                                                      const GrpcOptions& options, const Log& log) {
  std::unique_ptr<GrpcServer> front(new GrpcServer(service));
  const bool is_ipv6 =
      options.address.find(':') != std::string::npos && !options.address.starts_with('[');
  const std::string host = is_ipv6 ? str_cat("[", options.address, "]") : options.address;

  grpc::ServerBuilder builder;
  builder.AddListeningPort(str_cat(host, ":", options.port), grpc::InsecureServerCredentials(),
                           &front->port_);
  builder.SetMaxReceiveMessageSize(std::numeric_limits<std::int32_t>::max());
  builder.SetMaxSendMessageSize(std::numeric_limits<std::int32_t>::max());
  // Two servers on one port would each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&front->inference_);
  builder.RegisterService(&front->health_);
  front->server_ = builder.BuildAndStart();
  if (front->server_ == nullptr || front->port_ == 0) {
    return unavailable("gRPC cannot listen on ", host, ":", options.port,
                       ", is the port in use or the address not this machine's?");
  }
  front->endpoint_ = str_cat(host, ":", front->port_);
  log->info("Started GRPCInferenceService at {}", front->endpoint_);
  return front;
}

GrpcServer::~GrpcServer() { shutdown(std::chrono::system_clock::now()); }

void GrpcServer::shutdown(std::chrono::system_clock::time_point deadline) {
  if (!server_) return;
  server_->Shutdown(deadline);
  server_->Wait();
  server_.reset();
}

}  // namespace tutti::server
