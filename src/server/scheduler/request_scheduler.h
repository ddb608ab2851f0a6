// What stands between a loaded model's door and whatever answers its requests.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "server/scheduler/pending_request.h"

namespace tutti::server {

// Thread safe.
class RequestScheduler {
 public:
  virtual ~RequestScheduler() = default;  // as stop()

  // Sets times.queued. On an error the request is not queued and `done` is not called: UNAVAILABLE
  // for a full queue; `is_stopped`, when given, tells that the scheduler no longer takes any.
  virtual Status enqueue(const PendingPtr& request, bool* is_stopped = nullptr) = 0;

  // Refuses new requests, waits until those that it has are answered, and ends its threads. With a
  // deadline, what still waits in the queue then is answered UNAVAILABLE; what runs is waited for.
  // Not from a `done` callback. Any number of times.
  virtual void stop(std::optional<TimePoint> deadline = std::nullopt) = 0;

  virtual bool is_ready() const = 0;        // a request has a chance
  virtual std::size_t waiting() const = 0;  // requests in the queue
  virtual std::vector<InstanceStatistics> instance_statistics() const { return {}; }
};

// Told of each run of a model that succeeded, before its requests are answered: how many rows it
// had and when it was where (`arrived` and `queued` are not set).
using ExecutionObserver = std::function<void(std::int64_t rows, const RequestTimes& times)>;

}  // namespace tutti::server
