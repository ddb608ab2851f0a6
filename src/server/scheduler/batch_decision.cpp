#include "server/scheduler/batch_decision.h"

#include <algorithm>

namespace tutti::server {
namespace {

struct Run {
  std::size_t count = 0;
  std::int64_t rows = 0;
  std::size_t preferred_count = 0;  // the longest part of it of a preferred size
  bool can_grow = true;
  TimePoint oldest;
};

bool is_preferred(const BatchingOptions& options, std::int64_t rows) {
  if (options.preferred.empty()) return rows == options.max_batch_size;
  return std::binary_search(options.preferred.begin(), options.preferred.end(), rows);
}

Run front_run(const RequestQueue& queue, const BatchingOptions& options) {
  Run run;
  const PendingRequest* first = nullptr;
  queue.visit([&](const PendingRequest& next) {
    if (first == nullptr) {
      first = &next;
      run.oldest = next.times.queued;
    } else if (!next.joins || next.join_key != first->join_key ||
               run.rows + next.batch_size > options.max_batch_size) {
      run.can_grow = false;
      return false;
    }
    ++run.count;
    run.rows += next.batch_size;
    run.oldest = std::min(run.oldest, next.times.queued);
    if (is_preferred(options, run.rows)) run.preferred_count = run.count;
    run.can_grow = first->joins && run.rows < options.max_batch_size;
    return run.can_grow;
  });
  return run;
}

}  // namespace

BatchDecision decide_batch(const RequestQueue& queue, const BatchingOptions& options, TimePoint now,
                           bool may_wait) {
  if (queue.empty()) return {};
  if (!options.joins()) return {1, std::nullopt};
  const Run run = front_run(queue, options);
  if (run.preferred_count > 0) return {run.preferred_count, std::nullopt};
  const TimePoint until = run.oldest + options.max_queue_delay;
  if (run.can_grow && may_wait && now < until) return {0, until};
  return {run.count, std::nullopt};
}

}  // namespace tutti::server
