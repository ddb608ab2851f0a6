// grpc.health.v1.Health: what probes ask.
#pragma once

#include <health.grpc.pb.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "server/restrictions.h"
#include "server/service.h"

namespace tutti::server {

class HealthWatch;

// Answers SERVING while the server is ready, for "" and "inference.GRPCInferenceService". Check:
// NOT_FOUND for other names. Watch: SERVICE_UNKNOWN for other names; a message at once and one for
// each change, until the server stops.
class GrpcHealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  GrpcHealthService(InferenceService& service, Restrictions restrictions)
      : service_(service), restrictions_(std::move(restrictions)) {}
  // The gRPC server is gone by then, and all watches with it.
  ~GrpcHealthService() override;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  friend class HealthWatch;
  void add(HealthWatch* watch);
  void remove(HealthWatch* watch);
  void follow();  // the thread's: tells the watches

  InferenceService& service_;
  const Restrictions restrictions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::set<HealthWatch*> watches_;
  bool is_ending_ = false;
  std::thread thread_;  // since the first watch
};

}  // namespace tutti::server
