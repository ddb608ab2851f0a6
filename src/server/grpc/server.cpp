#include "server/grpc/server.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <limits>

#include "server/pem.h"

namespace tutti::server {

namespace {

Result<std::string> read_pem_of(std::string_view flag, const std::string& path) {
  Result<std::string> text = read_pem(path);
  if (!text.ok()) return text.status().with_context(str_cat("--", flag));
  return text;
}

Result<std::shared_ptr<grpc::ServerCredentials>> make_credentials(const GrpcTls& tls) {
  if (!tls.is_used) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls.is_mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  TUTTI_ASSIGN_OR_RETURN(std::string key, read_pem_of("grpc-server-key", tls.server_key));
  TUTTI_ASSIGN_OR_RETURN(std::string cert, read_pem_of("grpc-server-cert", tls.server_cert));
  options.pem_key_cert_pairs.push_back({std::move(key), std::move(cert)});
  if (tls.is_mutual) {
    TUTTI_ASSIGN_OR_RETURN(options.pem_root_certs, read_pem_of("grpc-root-cert", tls.root_cert));
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(InferenceService& service,
                                                      const GrpcOptions& options, const Log& log) {
  std::unique_ptr<GrpcServer> front(new GrpcServer(service, options.restrictions));
  const bool is_ipv6 =
      options.address.find(':') != std::string::npos && !options.address.starts_with('[');
  const std::string host = is_ipv6 ? str_cat("[", options.address, "]") : options.address;

  TUTTI_ASSIGN_OR_RETURN(const auto credentials, make_credentials(options.tls));
  // Debian builds Abseil with a check of the order of locks, which every lock of gRPC pays for.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(str_cat(host, ":", options.port), credentials, &front->port_);
  builder.SetMaxReceiveMessageSize(std::numeric_limits<std::int32_t>::max());
  builder.SetMaxSendMessageSize(std::numeric_limits<std::int32_t>::max());
  builder.SetDefaultCompressionLevel(options.compression);
  // Two servers on one port each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, options.reuses_port ? 1 : 0);
  // Of a tensor of many megabytes; clients cut it into frames of 16 KiB otherwise.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  for (const auto& [name, value] : options.channel_arguments) {
    builder.AddChannelArgument(name, value);
  }
  builder.RegisterService(&front->inference_);
  builder.RegisterService(&front->health_);
  front->server_ = builder.BuildAndStart();
  if (front->server_ == nullptr || front->port_ == 0) {
    return unavailable(
        "gRPC cannot listen on ", host, ":", options.port,
        ", is the port in use or the address not this machine's?",
        options.tls.is_used ? " Or do the key and the certificate not belong together?" : "");
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
