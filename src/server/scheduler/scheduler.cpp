#include "server/scheduler/scheduler.h"

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
    return model.infer(pending.request, *pending.sink);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory left to run the request");
  } catch (const std::exception& error) {
    return internal_error("the model threw: ", error.what());
  }
}

}  // namespace

std::shared_ptr<Scheduler> Scheduler::create(std::vector<std::unique_ptr<ServableModel>> instances,
                                             std::size_t queue_capacity) {
  std::shared_ptr<Scheduler> scheduler(new Scheduler(std::move(instances), queue_capacity));
  for (const auto& instance : scheduler->instances_) {
    scheduler->threads_.emplace_back(
        [self = scheduler.get(), model = instance.get()] { self->serve(*model); });
  }
  scheduler->threads_.emplace_back([self = scheduler.get()] { self->watch_deadlines(); });
  return scheduler;
}

Scheduler::Scheduler(std::vector<std::unique_ptr<ServableModel>> instances,
                     std::size_t queue_capacity)
    : instances_(std::move(instances)), queue_(queue_capacity) {}

Scheduler::~Scheduler() { stop(); }

Status Scheduler::enqueue(const PendingPtr& request, bool* is_stopped) {
  if (is_stopped != nullptr) *is_stopped = false;
  request->times.queued = now();
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
  if (request->request.cancel) {
    // Weak on both sides: the token may outlive the model, and the request's answer.
    request->request.cancel->on_cancel(
        [weak = weak_from_this(), pending = std::weak_ptr<PendingRequest>(request)] {
          if (const auto self = weak.lock()) self->cancel(pending);
        });
  }
  return Status();
}

void Scheduler::cancel(const std::weak_ptr<PendingRequest>& request) {
  const PendingPtr pending = request.lock();
  if (!pending) return;
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.remove(pending.get())) return;  // runs already, or is answered
    ++running_;
  }
  answer(*pending, cancelled());
  const std::lock_guard lock(mutex_);
  --running_;
  idle_.notify_all();
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
  if (request.cancel && request.cancel->is_cancelled()) return answer(pending, cancelled());
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

std::size_t Scheduler::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

std::size_t Scheduler::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

}  // namespace tutti::server
