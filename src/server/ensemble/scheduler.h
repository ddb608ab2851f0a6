// Answers requests of an ensemble by asking the models of its steps.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

#include "server/ensemble/graph.h"
#include "server/scheduler/request_scheduler.h"

namespace tutti::server {

// Steps run as soon as their tensors are there, side by side where the graph allows it. A tensor is
// written once, by the step that makes it, and read there by those that need it; an output of the
// ensemble is written to the request's own sink at once. Requests do not wait here but in the
// queues of the models.
class EnsembleScheduler final : public RequestScheduler {
 public:
  // `finder` outlives it.
  EnsembleScheduler(EnsembleGraph graph, const ModelFinder& finder, ExecutionObserver on_executed);
  ~EnsembleScheduler() override;
  EnsembleScheduler(const EnsembleScheduler&) = delete;
  EnsembleScheduler& operator=(const EnsembleScheduler&) = delete;

  Status enqueue(const PendingPtr& request, bool* is_stopped = nullptr) override;
  // With a deadline, what runs then is cancelled.
  void stop(std::optional<TimePoint> deadline = std::nullopt) override;
  bool is_ready() const override;  // the models of all steps are
  std::size_t waiting() const override { return 0; }

 private:
  class Run;

  void note_end(const std::shared_ptr<Run>& run);

  const EnsembleGraph graph_;
  const ModelFinder& finder_;
  const ExecutionObserver on_executed_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<std::shared_ptr<Run>> runs_;  // under mutex_
  bool is_draining_ = false;             // under mutex_
};

}  // namespace tutti::server
