#include "server/server.h"

#include <thread>
#include <utility>

#include "server/backend_loader.h"
#include "server/metrics/endpoint.h"

namespace tutti::server {

Server::Server(ServerOptions options, std::vector<std::unique_ptr<ModelBackend>> backends, Log log)
    : log_(log),
      repository_(std::make_shared<ModelRepository>(
          std::move(options.repository),
          std::make_shared<BackendLoader>(std::move(backends), options.queue_capacity, log,
                                          options.rate_limit, options.cache_bytes,
                                          options.metrics_content.latencies),
          log)),
      service_(repository_, options.service, log) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options,
                                              std::vector<std::unique_ptr<ModelBackend>> backends,
                                              Log log) {
  const std::optional<GrpcOptions> grpc = options.grpc;
  const std::optional<HttpOptions> http = options.http;
  KServeHttpOptions http_api = std::move(options.http_api);
  const std::optional<HttpOptions> metrics = options.metrics;
  const MetricsOptions metrics_content = options.metrics_content;
  const bool exits_on_error = options.exits_on_error;
  const bool polls = options.repository.control_mode == ControlMode::kPoll;
  const std::chrono::seconds poll_interval(options.poll_secs);
  std::unique_ptr<Server> server(new Server(std::move(options), std::move(backends), log));
  if (const Status status = server->repository_->start(); !status.ok()) {
    if (exits_on_error) return status;
    log->warn("serving without the models that failed to load");
  }
  if (grpc) {
    TUTTI_ASSIGN_OR_RETURN(server->grpc_, GrpcServer::start(server->service_, *grpc, log));
  }
  if (http) TUTTI_RETURN_IF_ERROR(server->start_http(*http, std::move(http_api)));
  if (metrics) TUTTI_RETURN_IF_ERROR(server->start_metrics(*metrics, metrics_content));
  if (polls) {
    server->poller_ = std::make_unique<Poller>(
        poll_interval, [repository = server->repository_] { repository->poll(); });
  }
  return server;
}

Status Server::start_metrics(const HttpOptions& options, const MetricsOptions& content) {
  const auto collector = std::make_shared<MetricsCollector>(service_, content);
  TUTTI_ASSIGN_OR_RETURN(metrics_,
                         HttpServer::start(options, "metrics", [collector](ExchangePtr exchange) {
                           handle_metrics(*collector, *exchange);
                         }));
  log_->info("Started Metrics Service at {}", metrics_->endpoint());
  return Status();
}

Status Server::start_http(const HttpOptions& options, KServeHttpOptions api) {
  TUTTI_ASSIGN_OR_RETURN(const auto handler, KServeHttp::create(service_, std::move(api)));
  TUTTI_ASSIGN_OR_RETURN(http_, HttpServer::start(options, "HTTP", [handler](ExchangePtr exchange) {
                           handler->handle(std::move(exchange));
                         }));
  log_->info("Started HTTPService at {}", http_->endpoint());
  return Status();
}

Server::~Server() { stop(std::chrono::milliseconds(0)); }

void Server::stop(std::chrono::milliseconds time) {
  service_.begin_shutdown();
  poller_.reset();
  const TimePoint deadline = std::chrono::steady_clock::now() + time;
  // Both refuse new requests from here on; each waits for its own.
  std::thread http([this, deadline] {
    if (http_) http_->shutdown(deadline);
  });
  if (grpc_) grpc_->shutdown(std::chrono::system_clock::now() + time);
  http.join();
  repository_->shutdown(deadline);
  // Last: the drain can be watched.
  if (metrics_) metrics_->shutdown(std::chrono::steady_clock::now());
}

}  // namespace tutti::server
