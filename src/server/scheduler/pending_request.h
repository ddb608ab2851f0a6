// A request on its way through a model's scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

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
  std::int64_t batch_size = 1;  // rows of the batch axis; 1 for models that do not batch
  std::string join_key;         // requests with the same one may run as one batch
  bool joins = true;            // false: it runs alone whatever its key
  RequestTimes times;
  // Called exactly once: with what the model answered, or with why it was not asked.
  std::function<void(PendingRequest&, Result<InferResult>)> done;
  std::optional<std::stop_callback<std::function<void()>>> on_cancel;  // set by the scheduler
};
using PendingPtr = std::shared_ptr<PendingRequest>;

}  // namespace tutti::server
