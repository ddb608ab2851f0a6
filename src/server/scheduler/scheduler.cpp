#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tutti::server {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

void answer(PendingRequest& pending, Result<InferResult> result) {
  pending.times.finished = now();
  auto done = std::move(pending.done);
  done(pending, std::move(result));
}

Status cancelled() { return Status(StatusCode::kCancelled, "the request was cancelled"); }

Status too_late() {
  return Status(StatusCode::kDeadlineExceeded, "the request's time ran out in the queue");
}

// Nothing that a model does may end a worker: what it throws becomes the request's error.
Result<InferResult> infer_guarded(ServableModel& model, PendingRequest& pending) {
  try {
    return model.infer(pending.request, pending.sink);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory left to run the request");
  } catch (const std::exception& error) {
    return internal_error("the model threw: ", error.what());
  }
}

}  // namespace

Scheduler::Scheduler(std::vector<std::unique_ptr<ServableModel>> instances,
                     std::size_t queue_capacity)
    : instances_(std::move(instances)), queue_(queue_capacity) {
  for (const auto& instance : instances_) {
    threads_.emplace_back([this, model = instance.get()] { serve(*model); });
  }
  threads_.emplace_back([this] { watch_deadlines(); });
}

Scheduler::~Scheduler() { stop(); }

Status Scheduler::enqueue(const PendingPtr& request, bool* is_stopped) {
  if (is_stopped != nullptr) *is_stopped = false;
  request->times.queued = now();
  // Before the request can be taken, since from then on it is another thread's. One that is
  // cancelled already finds nothing to remove here and is refused when its turn comes.
  if (request->request.cancel.stop_possible()) {
    request->on_cancel.emplace(request->request.cancel,
                               [this, raw = request.get()] { cancel(raw); });
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_) {
      if (is_stopped != nullptr) *is_stopped = true;
      return unavailable("the model is being unloaded");
    }
    const auto earliest = queue_.next_deadline();
    TUTTI_RETURN_IF_ERROR(queue_.push(request));
    if (queue_.next_deadline() != earliest) deadlines_.notify_one();
  }
  work_.notify_one();
  return Status();
}

// Runs inside the request's stop callback, which the request waits for before it goes; so the
// pointer is good, and the scheduler cannot have stopped.
void Scheduler::cancel(const PendingRequest* request) {
  PendingPtr pending;
  {
    const std::lock_guard lock(mutex_);
    pending = queue_.remove(request);
    if (!pending) return;  // runs already, or was answered
    ++running_;
  }
  answer(*pending, cancelled());
  const std::lock_guard lock(mutex_);
  --running_;
  if (running_ == 0 && queue_.empty()) idle_.notify_all();
}

bool Scheduler::is_ready() const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [](const auto& instance) { return instance->is_ready(); });
}

void Scheduler::serve(ServableModel& model) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    PendingPtr pending = queue_.pop();
    ++running_;
    lock.unlock();
    run(model, *pending);
    pending.reset();
    lock.lock();
    --running_;
    if (running_ == 0 && queue_.empty()) idle_.notify_all();
  }
}

void Scheduler::run(ServableModel& model, PendingRequest& pending) {
  RequestTimes& times = pending.times;
  times.started = now();
  const InferRequest& request = pending.request;
  if (request.cancel.stop_requested()) return answer(pending, cancelled());
  if (request.deadline && *request.deadline <= times.started) return answer(pending, too_late());
  Result<InferResult> result = infer_guarded(model, pending);
  if (result.ok()) {
    times.inputs_ready = result->inputs_ready;
    times.outputs_started = result->outputs_started;
  }
  answer(pending, std::move(result));
}

void Scheduler::watch_deadlines() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (const auto next = queue_.next_deadline()) {
      deadlines_.wait_until(lock, *next);
    } else {
      deadlines_.wait(lock);
    }
    const std::vector<PendingPtr> expired = queue_.take_expired(now());
    if (expired.empty()) continue;
    running_ += expired.size();
    lock.unlock();
    for (const PendingPtr& pending : expired) answer(*pending, too_late());
    lock.lock();
    running_ -= expired.size();
    if (running_ == 0 && queue_.empty()) idle_.notify_all();
  }
}

void Scheduler::stop(std::optional<TimePoint> deadline) {
  const std::lock_guard stopping(stop_mutex_);
  if (threads_.empty()) return;
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  const auto is_idle = [this] { return running_ == 0 && queue_.empty(); };
  if (deadline && !idle_.wait_until(lock, *deadline, is_idle)) {
    const std::vector<PendingPtr> left = queue_.take_all();
    lock.unlock();
    for (const PendingPtr& pending : left) {
      answer(*pending, unavailable("the server stops before the request's turn came"));
    }
    lock.lock();
  }
  idle_.wait(lock, is_idle);
  is_ending_ = true;
  lock.unlock();
  work_.notify_all();
  deadlines_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<InstanceStatistics> Scheduler::instance_statistics() const {
  std::vector<InstanceStatistics> statistics;
  for (const auto& instance : instances_) statistics.push_back(instance->statistics());
  return statistics;
}

std::size_t Scheduler::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

std::size_t Scheduler::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

}  // namespace tutti::server
