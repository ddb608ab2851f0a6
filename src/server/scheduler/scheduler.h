// Brings queued requests to the instances of one model version: one queue, one thread an instance.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/scheduler/request_queue.h"
#include "server/servable_model.h"

namespace tutti::server {

// Thread safe. An idle instance takes the oldest request; requests leave the queue unserved when
// their deadline passes (DEADLINE_EXCEEDED) or they are cancelled (CANCELLED).
class Scheduler {
 public:
  Scheduler(std::vector<std::unique_ptr<ServableModel>> instances, std::size_t queue_capacity);
  // As stop().
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Sets times.queued. On an error the request is not queued and `done` is not called: UNAVAILABLE
  // for a full queue; `is_stopped`, when given, tells that the scheduler no longer takes any.
  Status enqueue(const PendingPtr& request, bool* is_stopped = nullptr);

  // Refuses new requests, waits until those that it has are answered, and ends the threads. With a
  // deadline, what still waits in the queue then is answered UNAVAILABLE; what runs is waited for.
  // Not from a `done` callback. Any number of times.
  void stop(std::optional<TimePoint> deadline = std::nullopt);

  bool is_ready() const;  // an instance is
  std::size_t waiting() const;
  std::size_t running() const;
  std::vector<InstanceStatistics> instance_statistics() const;

 private:
  void serve(ServableModel& model);
  void run(ServableModel& model, PendingRequest& pending);
  void watch_deadlines();
  void cancel(const PendingRequest* request);

  std::vector<std::unique_ptr<ServableModel>> instances_;
  mutable std::mutex mutex_;
  std::condition_variable work_;       // a request came, or the end
  std::condition_variable deadlines_;  // an earlier deadline came, or the end
  std::condition_variable idle_;       // nothing waits or runs
  RequestQueue queue_;                 // under mutex_
  std::size_t running_ = 0;            // under mutex_
  bool is_draining_ = false;           // under mutex_: takes no more requests
  bool is_ending_ = false;             // under mutex_: threads return
  std::mutex stop_mutex_;              // one stop() at a time; taken before mutex_
  std::vector<std::thread> threads_;   // under stop_mutex_ after construction
};

}  // namespace tutti::server
