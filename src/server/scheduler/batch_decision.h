// Which of the waiting requests run together, and whether to wait for more of them.
#pragma once

#include <cstddef>
#include <optional>

#include "server/scheduler/request_queue.h"
#include "server/scheduler/scheduling_options.h"

namespace tutti::server {

struct BatchDecision {
  std::size_t count = 0;                // the first so many requests run now
  std::optional<TimePoint> wait_until;  // with a count of 0: ask again then, or when one more comes
  bool operator==(const BatchDecision&) const = default;
};

// Triton's rules (its user guide, "Dynamic Batcher"): the longest run of requests from the front
// that may be joined and stays within max_batch_size. A preferred size that can be made is made at
// once; so is the whole run when it cannot grow, when nothing allows a delay, or when its oldest
// request has waited for max_queue_delay. A request is never passed by one behind it.
// `may_wait` false: whatever there is runs now.
BatchDecision decide_batch(const RequestQueue& queue, const BatchingOptions& options, TimePoint now,
                           bool may_wait = true);

}  // namespace tutti::server
