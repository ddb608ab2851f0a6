#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/scheduler/joined_batch.h"

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

// Why a request that an instance took is not worth running.
Status check_wanted(const PendingRequest& pending) {
  const InferRequest& request = pending.request;
  if (request.cancel.stop_requested()) return cancelled();
  if (request.deadline && *request.deadline <= pending.times.started) return too_late();
  return Status();
}

// Nothing that a model does may end a worker: what it throws becomes the request's error.
Result<InferResult> infer_guarded(ServableModel& model, const InferRequest& request,
                                  const std::shared_ptr<OutputSink>& sink) {
  try {
    return model.infer(request, sink);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory left to run the request");
  } catch (const std::exception& error) {
    return internal_error("the model threw: ", error.what());
  }
}

void set_phases(const InferResult& result, RequestTimes* times) {
  if (result.started) times->started = *result.started;
  times->inputs_ready = result.inputs_ready;
  times->outputs_started = result.outputs_started;
}

std::vector<ScheduledInstance> without_claims(std::vector<std::unique_ptr<ServableModel>> models) {
  std::vector<ScheduledInstance> instances;
  for (auto& model : models) instances.push_back({std::move(model), nullptr});
  return instances;
}

SchedulingOptions with_capacity(std::size_t capacity) {
  SchedulingOptions options;
  options.capacity = capacity;
  return options;
}

}  // namespace

Scheduler::Scheduler(std::vector<ScheduledInstance> instances, SchedulingOptions options,
                     ExecutionObserver on_executed)
    : options_(std::move(options)),
      on_executed_(std::move(on_executed)),
      instances_(std::move(instances)),
      queue_(options_) {
  for (const ScheduledInstance& instance : instances_) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>(instance));
    // To be asked ahead is worth less than fuller batches.
    const int threads = options_.batching.joins() ? 1 : instance.model->concurrency();
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, &worker] { serve(worker); });
  }
  threads_.emplace_back([this] { watch_expiry(); });
}

Scheduler::Scheduler(std::vector<std::unique_ptr<ServableModel>> instances,
                     std::size_t queue_capacity)
    : Scheduler(without_claims(std::move(instances)), with_capacity(queue_capacity)) {}

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
    const auto earliest = queue_.next_expiry();
    TUTTI_RETURN_IF_ERROR(queue_.push(request, request->times.queued));
    if (queue_.next_expiry() != earliest) expiry_.notify_one();
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
  note_answered(1);
}

bool Scheduler::is_ready() const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [](const ScheduledInstance& instance) { return instance.model->is_ready(); });
}

void Scheduler::serve(Worker& worker) {
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) {
    if (!claim(worker.claims, lock)) return;
    Batch batch = take_batch();
    // What is left is for another instance to look at, which may have slept through its arrival.
    if (!queue_.empty()) work_.notify_one();
    lock.unlock();
    {
      const ClaimHolder holder(worker.claims);
      run(worker.model, std::move(batch));
    }
    lock.lock();
  }
}

// True when there is something to run now, false at the end.
bool Scheduler::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!is_ending_) {
    const BatchDecision next = decide_batch(queue_, options_.batching, now(), !is_draining_);
    if (next.count > 0) return true;
    if (next.wait_until) {
      work_.wait_until(lock, *next.wait_until);
    } else {
      work_.wait(lock);
    }
  }
  return false;
}

// The queue is not held meanwhile: what comes until the claim is granted joins the batch.
bool Scheduler::claim(SharedClaims& claims, std::unique_lock<std::mutex>& lock) {
  if (claims.is_empty()) return true;
  lock.unlock();
  bool is_claimed = claims.try_acquire();
  if (!is_claimed) {
    work_.notify_one();  // another instance may be free to run it
    is_claimed = claims.acquire(ending_.get_token());
  }
  lock.lock();
  return is_claimed;
}

// Empty when others took what there was.
Scheduler::Batch Scheduler::take_batch() {
  const BatchDecision next = decide_batch(queue_, options_.batching, now(), !is_draining_);
  Batch batch{queue_.pop(next.count)};
  running_ += batch.requests.size();
  if (!options_.batching.preserves_ordering) return batch;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    const AnswerOrder::Place place = order_.take();
    if (i == 0) batch.first_place = place;
  }
  return batch;
}

void Scheduler::run(ServableModel& model, Batch batch) {
  std::vector<PendingPtr> wanted;
  AnswerOrder::Place place = batch.first_place;
  for (PendingPtr& request : batch.requests) {
    request->times.started = now();
    const Status status = check_wanted(*request);
    if (status.ok()) {
      wanted.push_back(std::move(request));
    } else {
      // A batch has consecutive places: those that fall out go first.
      deliver(place++, std::move(request), status);
    }
  }
  if (wanted.size() > 1) return run_joined(model, wanted, place);
  for (const PendingPtr& request : wanted) run_one(model, request, place);
}

void Scheduler::run_one(ServableModel& model, const PendingPtr& request, AnswerOrder::Place place) {
  Result<InferResult> result = infer_guarded(model, request->request, request->sink);
  if (result.ok()) {
    set_phases(*result, &request->times);
    if (on_executed_) {
      RequestTimes times = request->times;
      times.finished = now();
      on_executed_(request->batch_size, times);
    }
  }
  deliver(place, request, std::move(result));
}

void Scheduler::run_joined(ServableModel& model, std::span<const PendingPtr> requests,
                           AnswerOrder::Place first_place) {
  const JoinedBatch joined(requests);
  const Result<InferResult> result = infer_guarded(model, joined.request(), joined.sink());
  joined.share_rank_times();
  // One request may be to blame; the others must not suffer for the company they were put in.
  if (result.status().code() == StatusCode::kInvalidArgument) {
    for (const PendingPtr& request : requests) run_one(model, request, first_place++);
    return;
  }
  if (!result.ok()) {
    for (const PendingPtr& request : requests) deliver(first_place++, request, result.status());
    return;
  }
  std::vector<Result<InferResult>> results = joined.split(*result);
  RequestTimes times = requests.front()->times;
  set_phases(*result, &times);
  times.finished = now();
  if (on_executed_) on_executed_(joined.rows(), times);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    set_phases(*result, &requests[i]->times);
    deliver(first_place++, requests[i], std::move(results[i]));
  }
}

void Scheduler::deliver(AnswerOrder::Place place, PendingPtr request, Result<InferResult> result) {
  if (!options_.batching.preserves_ordering) {
    answer(*request, std::move(result));
    request.reset();
    return note_answered(1);
  }
  auto held = std::make_shared<Result<InferResult>>(std::move(result));
  order_.give(place, [this, request = std::move(request), held]() mutable {
    answer(*request, std::move(*held));
    request.reset();
    note_answered(1);
  });
}

void Scheduler::note_answered(std::size_t count) {
  const std::lock_guard lock(mutex_);
  running_ -= count;
  if (running_ == 0 && queue_.empty()) idle_.notify_all();
}

void Scheduler::watch_expiry() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (const auto next = queue_.next_expiry()) {
      expiry_.wait_until(lock, *next);
    } else {
      expiry_.wait(lock);
    }
    std::vector<RequestQueue::Expired> expired = queue_.expire(now());
    if (expired.empty()) continue;
    running_ += expired.size();
    lock.unlock();
    for (RequestQueue::Expired& one : expired) {
      answer(*one.request, std::move(one.why));
      one.request.reset();
      note_answered(1);
    }
    lock.lock();
  }
}

void Scheduler::stop(std::optional<TimePoint> deadline) {
  const std::lock_guard stopping(stop_mutex_);
  if (threads_.empty()) return;
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  work_.notify_all();  // nobody waits for a fuller batch any more
  const auto is_idle = [this] { return running_ == 0 && queue_.empty(); };
  if (deadline && !idle_.wait_until(lock, *deadline, is_idle)) {
    std::vector<PendingPtr> left = queue_.take_all();
    lock.unlock();
    for (const PendingPtr& pending : left) {
      answer(*pending, unavailable("the server stops before the request's turn came"));
    }
    left.clear();  // before the lock: one that is being cancelled waits for it in cancel()
    lock.lock();
  }
  idle_.wait(lock, is_idle);
  is_ending_ = true;
  lock.unlock();
  ending_.request_stop();
  work_.notify_all();
  expiry_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<InstanceStatistics> Scheduler::instance_statistics() const {
  std::vector<InstanceStatistics> statistics;
  for (const auto& instance : instances_) statistics.push_back(instance.model->statistics());
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
