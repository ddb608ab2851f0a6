// A whole server: repository, service and front ends, started and stopped together.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "server/grpc/server.h"
#include "server/http/kserve.h"
#include "server/http/server.h"
#include "server/log.h"
#include "server/metrics/collector.h"
#include "server/model_backend.h"
#include "server/repository/poller.h"
#include "server/repository/repository.h"
#include "server/scheduler/instance_claims.h"
#include "server/service.h"

namespace tutti::server {

struct ServerOptions {
  RepositoryOptions repository;
  ServiceOptions service;
  std::optional<GrpcOptions> grpc = GrpcOptions();  // nothing: no gRPC front end
  std::optional<HttpOptions> http = std::nullopt;   // nothing: no HTTP front end
  KServeHttpOptions http_api;
  std::optional<HttpOptions> metrics = std::nullopt;  // nothing: no metrics
  MetricsOptions metrics_content;
  std::size_t queue_capacity = 4096;  // waiting requests of one model version
  RateLimitOptions rate_limit;
  std::size_t cache_bytes = 0;  // what models with response_cache share; 0: nothing is cached
  int poll_secs = 15;           // ControlMode::kPoll
  bool exits_on_error = true;   // a model that does not load at the start fails the start
};

class Server {
 public:
  // Loads the models, then listens. The first backend serves configurations that name none.
  static Result<std::unique_ptr<Server>> start(ServerOptions options,
                                               std::vector<std::unique_ptr<ModelBackend>> backends,
                                               Log log);
  ~Server();  // as stop() without time

  InferenceService& service() { return service_; }
  const GrpcServer* grpc() const { return grpc_.get(); }        // null without
  const HttpServer* http() const { return http_.get(); }        // null without
  const HttpServer* metrics() const { return metrics_.get(); }  // null without

  // Refuses what is new, answers what is in flight, cancels what is left after `time`. Returns when
  // no request runs any more, which a model that never returns can put off for ever. Once.
  void stop(std::chrono::milliseconds time);

 private:
  Status start_http(const HttpOptions& options, KServeHttpOptions api);
  Status start_metrics(const HttpOptions& options, const MetricsOptions& content);

  Server(ServerOptions options, std::vector<std::unique_ptr<ModelBackend>> backends, Log log);

  const Log log_;
  const std::shared_ptr<ModelRepository> repository_;
  InferenceService service_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> metrics_;
  std::unique_ptr<Poller> poller_;  // null but in ControlMode::kPoll
};

}  // namespace tutti::server
