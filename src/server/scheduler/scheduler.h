// Brings queued requests to the instances of one model version: one queue, a thread an instance, or
// as many as it takes requests at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "server/scheduler/answer_order.h"
#include "server/scheduler/batch_decision.h"
#include "server/scheduler/request_queue.h"
#include "server/scheduler/request_scheduler.h"
#include "server/scheduler/shared_claims.h"
#include "server/servable_model.h"

namespace tutti::server {

struct ScheduledInstance {
  std::unique_ptr<ServableModel> model;
  std::unique_ptr<RateLimiter::Member> claims;  // null: it shares nothing
};

// An idle instance first gets what it shares with others, then takes the first requests of the
// queue, joined where the options say so. Requests leave the queue unserved when their time is up
// (RequestQueue::expire) or they are cancelled (CANCELLED).
class Scheduler final : public RequestScheduler {
 public:
  Scheduler(std::vector<ScheduledInstance> instances, SchedulingOptions options,
            ExecutionObserver on_executed = nullptr);
  // Instances that share nothing, one request at a time.
  Scheduler(std::vector<std::unique_ptr<ServableModel>> instances, std::size_t queue_capacity);
  ~Scheduler() override;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Status enqueue(const PendingPtr& request, bool* is_stopped = nullptr) override;
  void stop(std::optional<TimePoint> deadline = std::nullopt) override;
  bool is_ready() const override;  // an instance is
  std::size_t waiting() const override;
  std::size_t running() const;  // requests that were taken and not answered yet
  std::vector<InstanceStatistics> instance_statistics() const override;

 private:
  struct Batch {
    std::vector<PendingPtr> requests;
    AnswerOrder::Place first_place = 0;  // where answers are ordered
  };

  // An instance as its threads see it.
  struct Worker {
    explicit Worker(const ScheduledInstance& instance)
        : model(*instance.model), claims(instance.claims.get()) {}
    ServableModel& model;
    SharedClaims claims;
  };

  void serve(Worker& worker);
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool claim(SharedClaims& claims, std::unique_lock<std::mutex>& lock);
  Batch take_batch();
  void run(ServableModel& model, Batch batch);
  void run_joined(ServableModel& model, std::span<const PendingPtr> requests,
                  AnswerOrder::Place first_place);
  void run_one(ServableModel& model, const PendingPtr& request, AnswerOrder::Place place);
  void deliver(AnswerOrder::Place place, PendingPtr request, Result<InferResult> result);
  void note_answered(std::size_t count);
  void watch_expiry();
  void cancel(const PendingRequest* request);

  const SchedulingOptions options_;
  const ExecutionObserver on_executed_;
  std::vector<ScheduledInstance> instances_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one an instance
  mutable std::mutex mutex_;
  std::condition_variable work_;    // a request came, or the end
  std::condition_variable expiry_;  // an earlier deadline came, or the end
  std::condition_variable idle_;    // nothing waits or runs
  RequestQueue queue_;              // under mutex_
  std::size_t running_ = 0;         // under mutex_
  bool is_draining_ = false;        // under mutex_: takes no more requests
  bool is_ending_ = false;          // under mutex_: threads return
  AnswerOrder order_;               // places are taken under mutex_
  std::stop_source ending_;
  std::mutex stop_mutex_;             // one stop() at a time; taken before mutex_
  std::vector<std::thread> threads_;  // under stop_mutex_ after construction
};

}  // namespace tutti::server
