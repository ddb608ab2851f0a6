#include "server/grpc/health_service.h"

#include <grpc_service.grpc.pb.h>

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "server/grpc/access.h"
#include "server/grpc/status.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How soon a change is told. Readiness has many sources, none of which knows of watches.
constexpr std::chrono::milliseconds kLook{100};

bool is_known(const std::string& name) {
  return name.empty() || name == inference::GRPCInferenceService::service_full_name();
}

class RefusedWatch final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  explicit RefusedWatch(const Status& status) { Finish(to_grpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

// One Watch call. Owns itself: gRPC ends it through OnDone.
class HealthWatch final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  HealthWatch(GrpcHealthService& service, bool knows_name)
      : service_(service), knows_name_(knows_name) {}

  void start() {
    service_.add(this);
    on_stop_.emplace(service_.service_.stopping(), [this] { look(true); });
    {
      const std::lock_guard lock(mutex_);
      is_started_ = true;
    }
    look(false);
  }

  // Writes where there is something new, ends where the server does. `is_stopping`: it does.
  void look(bool is_stopping) {
    bool writes = false;
    bool finishes = false;
    bool is_broken = false;
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = is_stopping_ || is_stopping;
      // OnWriteDone and start() look again.
      if (is_writing_ || is_finished_ || !is_started_) return;
      const HealthCheckResponse::ServingStatus status =
          !knows_name_                   ? HealthCheckResponse::SERVICE_UNKNOWN
          : service_.service_.is_ready() ? HealthCheckResponse::SERVING
                                         : HealthCheckResponse::NOT_SERVING;
      writes = !is_broken_ && status != response_.status();
      finishes = !writes && (is_stopping_ || is_broken_);
      if (writes) response_.set_status(status);
      is_writing_ = writes;
      is_finished_ = finishes;
      is_broken = is_broken_;
    }
    // After Finish() nothing of this may be touched.
    if (writes) StartWrite(&response_);
    if (finishes) Finish(is_broken ? grpc::Status::CANCELLED : grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      is_writing_ = false;
      is_broken_ = is_broken_ || !ok;
    }
    look(false);
  }
  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      is_broken_ = true;
    }
    look(false);
  }
  void OnDone() override {
    on_stop_.reset();
    service_.remove(this);
    delete this;
  }

 private:
  GrpcHealthService& service_;
  const bool knows_name_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::mutex mutex_;
  // Under mutex_.
  HealthCheckResponse response_;  // what was told last; UNKNOWN before the first
  bool is_started_ = false;
  bool is_writing_ = false;
  bool is_broken_ = false;  // nobody reads any more
  bool is_stopping_ = false;
  bool is_finished_ = false;
};

GrpcHealthService::~GrpcHealthService() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GrpcHealthService::add(HealthWatch* watch) {
  const std::lock_guard lock(mutex_);
  watches_.insert(watch);
  if (!thread_.joinable()) thread_ = std::thread([this] { follow(); });
  changed_.notify_all();
}

void GrpcHealthService::remove(HealthWatch* watch) {
  const std::lock_guard lock(mutex_);
  watches_.erase(watch);
}

void GrpcHealthService::follow() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (watches_.empty()) {
      changed_.wait(lock, [this] { return is_ending_ || !watches_.empty(); });
      continue;
    }
    changed_.wait_for(lock, kLook, [this] { return is_ending_; });
    // Under the lock: a watch is there until remove(). Its own calls come from gRPC's threads.
    for (HealthWatch* watch : watches_) watch->look(false);
  }
}

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
  if (!is_known(name)) {
    reactor->Finish(to_grpc(not_found("service '", printable(name), "' is not known")));
    return reactor;
  }
  response->set_status(service_.is_ready() ? HealthCheckResponse::SERVING
                                           : HealthCheckResponse::NOT_SERVING);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* GrpcHealthService::Watch(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request) {
  const Status status = check_access(*context, restrictions_, CallGroup::kHealth);
  if (!status.ok()) return new RefusedWatch(status);
  auto* watch = new HealthWatch(*this, is_known(request->service()));
  watch->start();
  return watch;
}

}  // namespace tutti::server
