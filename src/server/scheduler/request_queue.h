// The requests that wait for an instance of one model: first in, first out, bounded.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/servable_model.h"

namespace tutti::server {

// When a request reached each station. A request that never ran has no times after `queued`.
struct RequestTimes {
  TimePoint arrived;  // at the door
  TimePoint queued;
  TimePoint started;  // taken by an instance
  TimePoint inputs_ready;
  TimePoint outputs_started;
  TimePoint finished;
};

struct PendingRequest {
  InferRequest request;
  std::shared_ptr<OutputSink> sink;
  RequestTimes times;
  // Called exactly once: with what the model answered, or with why it was not asked.
  std::function<void(PendingRequest&, Result<InferResult>)> done;
  std::optional<std::stop_callback<std::function<void()>>> on_cancel;  // set by the scheduler
};
using PendingPtr = std::shared_ptr<PendingRequest>;

// A container: no threads, no clock, no locks; the scheduler holds a mutex around every call.
class RequestQueue {
 public:
  explicit RequestQueue(std::size_t capacity) : capacity_(capacity) {}

  // UNAVAILABLE when `capacity` requests wait already.
  Status push(PendingPtr request);
  PendingPtr pop();  // the oldest; null when empty
  // Takes out one that waits; null when it is not here (any more).
  PendingPtr remove(const PendingRequest* request);
  // Takes out those whose deadline is at or before `now`, earliest first.
  std::vector<PendingPtr> take_expired(TimePoint now);
  std::vector<PendingPtr> take_all();
  std::optional<TimePoint> next_deadline() const;

  std::size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }

 private:
  using Waiting = std::list<PendingPtr>;
  struct Position {
    Waiting::iterator waiting;
    std::optional<std::multimap<TimePoint, PendingPtr>::iterator> deadline;
  };
  PendingPtr take(std::unordered_map<const PendingRequest*, Position>::iterator found);

  std::size_t capacity_;
  Waiting waiting_;
  std::multimap<TimePoint, PendingPtr> deadlines_;
  std::unordered_map<const PendingRequest*, Position> positions_;
};

}  // namespace tutti::server
