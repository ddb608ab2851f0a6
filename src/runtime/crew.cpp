#include "runtime/crew.h"

#include <exception>
#include <new>

namespace tutti {
namespace {

// A change of threads there and back takes a tenth of this. A run that may not be left behind must
// be a short one, too.
constexpr std::chrono::microseconds kShortRun{200};

}  // namespace

Result<std::shared_ptr<Crew>> Crew::create(std::shared_ptr<const Plan> plan, Backend& backend,
                                           const CrewOptions& options) {
  std::shared_ptr<Crew> crew(new Crew(std::move(plan)));
  const Mesh& mesh = crew->plan_->mesh;
  const int ranks = mesh.num_ranks();
  crew->communicators_ = make_local_mesh(mesh, options.communicators);
  for (int rank = 0; rank < ranks; ++rank) {
    RankDeviceOptions device_options;
    device_options.device = options.devices[static_cast<std::size_t>(rank)];
    device_options.rank = rank;
    device_options.threads = options.threads_per_rank;
    device_options.communicators = crew->communicators_->of_rank(rank);
    device_options.group = crew->communicators_->group_of_rank(rank);
    for (const MeshAxis& axis : mesh.axes()) device_options.axes.push_back(axis.name);
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> device, backend.create_rank(device_options));
    ExecutorOptions executor_options = options.executor;
    executor_options.rank = rank;
    executor_options.gives_outputs = rank == 0;
    executor_options.group = device_options.group;
    TUTTI_ASSIGN_OR_RETURN(
        std::unique_ptr<Executor> executor,
        Executor::create(*crew->plan_, std::move(device), std::move(executor_options)));
    crew->executors_.push_back(std::move(executor));
  }
  crew->is_running_.assign(static_cast<std::size_t>(ranks), false);
  crew->runs_.resize(static_cast<std::size_t>(ranks));
  crew->use_.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    crew->threads_.emplace_back([self = crew, rank] { self->work(rank); });
  }
  return crew;
}

void Crew::work(int rank) {
  std::uint64_t seen = 0;
  for (;;) {
    std::shared_ptr<RankJob> job;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return is_dismissed_ || job_number_ != seen; });
      if (job_number_ == seen) return;
      seen = job_number_;
      job = job_;
    }
    RankRun run;
    const Status status = run_rank(rank, *job, &run);
    job.reset();  // before anybody hears of the end
    report(rank, run, status);
  }
}

Status Crew::run_rank(int rank, const RankJob& job, RankRun* run) {
  const RankProgress& progress = executors_[static_cast<std::size_t>(rank)]->progress();
  const std::int64_t exchange_before = progress.exchange_ns.load(std::memory_order_relaxed);
  RankRun timed;
  timed.started = std::chrono::steady_clock::now();
  const Status status = run_guarded(rank, job);
  timed.finished = std::chrono::steady_clock::now();
  timed.exchange = std::chrono::nanoseconds(progress.exchange_ns.load(std::memory_order_relaxed) -
                                            exchange_before);
  if (!job.only_prepares) *run = timed;
  return status;
}

Status Crew::run_guarded(int rank, const RankJob& job) {
  try {
    return executors_[static_cast<std::size_t>(rank)]->run(job);
  } catch (const std::bad_alloc&) {
    mark_damaged();
    return Status(StatusCode::kResourceExhausted, "no memory left on the host");
  } catch (const std::exception& error) {
    mark_damaged();
    return internal_error("exception: ", error.what());
  } catch (...) {
    mark_damaged();
    return internal_error("exception of unknown type");
  }
}

void Crew::mark_damaged() {
  const std::lock_guard lock(mutex_);
  is_damaged_ = true;
}

void Crew::report(int rank, const RankRun& run, const Status& status) {
  Status reason;
  {
    const std::lock_guard lock(mutex_);
    if (!status.ok() && verdict_.ok()) {
      // What is wrong with a request's content or with the plan is no damage to the ranks, nor is
      // memory that they did not get.
      const bool keeps_code = status.code() == StatusCode::kInvalidArgument ||
                              status.code() == StatusCode::kUnimplemented ||
                              status.code() == StatusCode::kResourceExhausted;
      is_damaged_ = is_damaged_ || !keeps_code;
      reason = Status(keeps_code ? status.code() : StatusCode::kUnavailable,
                      str_cat("rank ", rank, " of ", size(), ": ", status.message()));
    }
  }
  if (!reason.ok()) condemn(reason);
  {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(rank);
    runs_[index] = run;
    use_[index].run += run.finished - run.started;
    use_[index].exchange += run.exchange;
    is_running_[index] = false;
    --running_;
    if (running_ == 0) job_.reset();  // the request's buffers are nobody's any more
  }
  done_.notify_all();
}

void Crew::begin_locked(std::shared_ptr<RankJob> job) {
  job_ = std::move(job);
  if (!verdict_.ok()) job_->stop.store(true, std::memory_order_release);  // stopped just before
  is_running_.assign(executors_.size(), true);
  runs_.assign(executors_.size(), {});
  running_ = size();
}

void Crew::start(std::shared_ptr<RankJob> job) {
  {
    const std::lock_guard lock(mutex_);
    begin_locked(std::move(job));
    ++job_number_;
  }
  work_.notify_all();
}

Status Crew::run(const std::shared_ptr<RankJob>& job, TimePoint deadline,
                 const std::stop_token& cancel) {
  if (is_short(*job, deadline)) return run_here(job, cancel);
  start(job);
  return wait(deadline, cancel);
}

// All ranks are out: the executors are the caller's to ask.
bool Crew::is_short(const RankJob& job, TimePoint deadline) const {
  if (executors_.size() != 1) return false;
  const auto expected = executors_.front()->expected_time(job);
  if (!expected || *expected > kShortRun) return false;
  return deadline == kNoDeadline || std::chrono::steady_clock::now() + 10 * kShortRun < deadline;
}

Status Crew::run_here(const std::shared_ptr<RankJob>& job, const std::stop_token& cancel) {
  {
    const std::lock_guard lock(mutex_);
    begin_locked(job);
  }
  {
    const std::stop_callback stop(
        cancel, [this] { condemn(Status(StatusCode::kCancelled, "the request was cancelled")); });
    RankRun run;
    const Status status = run_rank(0, *job, &run);
    report(0, run, status);
  }
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Crew::condemn(const Status& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!verdict_.ok()) return;
    verdict_ = reason;
    if (job_ != nullptr) job_->stop.store(true, std::memory_order_release);
  }
  communicators_->abort(reason);
  done_.notify_all();
}

Status Crew::wait(TimePoint deadline, const std::stop_token& cancel) {
  const std::stop_callback wake(cancel, [this] {
    // Under the lock, so that it does not fall between a check and the wait.
    const std::lock_guard lock(mutex_);
    done_.notify_all();
  });
  Status reason;
  {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return running_ == 0 || !verdict_.ok() || cancel.stop_requested(); };
    if (deadline == kNoDeadline) {
      done_.wait(lock, is_over);
    } else if (!done_.wait_until(lock, deadline, is_over)) {
      reason = late_ranks_locked();
    }
    if (reason.ok()) {
      if (running_ == 0 || !verdict_.ok()) return verdict_;
      reason = Status(StatusCode::kCancelled, "the request was cancelled");
    }
  }
  condemn(reason);
  const std::lock_guard lock(mutex_);
  return verdict_;  // a rank may have failed in between
}

// Those that neither finished nor wait for others are what the deadline was lost to.
Status Crew::late_ranks_locked() const {
  std::string held_up;
  std::string waiting;
  for (std::size_t rank = 0; rank < executors_.size(); ++rank) {
    if (!is_running_[rank]) continue;
    const RankProgress& progress = executors_[rank]->progress();
    std::string& list = progress.in_exchange.load(std::memory_order_acquire) ? waiting : held_up;
    list += str_cat(list.empty() ? "" : ", ", "rank ", rank);
    if (const Node* node = progress.node.load(std::memory_order_acquire)) {
      list += " (" + node->describe() + ")";
    }
  }
  return Status(StatusCode::kDeadlineExceeded,
                str_cat("deadline exceeded: ", held_up.empty() ? waiting : held_up, " of ", size(),
                        " did not finish"));
}

bool Crew::wait_until_out(TimePoint until) {
  std::unique_lock lock(mutex_);
  return done_.wait_until(lock, until, [&] { return running_ == 0; });
}

bool Crew::is_damaged() {
  const std::lock_guard lock(mutex_);
  return is_damaged_;
}

Status Crew::renew() {
  TUTTI_RETURN_IF_ERROR(communicators_->renew());
  const std::lock_guard lock(mutex_);
  verdict_ = {};
  is_damaged_ = false;
  return {};
}

void Crew::dismiss() {
  std::vector<bool> is_busy;
  {
    const std::lock_guard lock(mutex_);
    is_dismissed_ = true;
    is_busy = is_running_;
  }
  work_.notify_all();
  for (std::size_t rank = 0; rank < threads_.size(); ++rank) {
    if (is_busy[rank]) {
      threads_[rank].detach();
    } else {
      threads_[rank].join();
    }
  }
  threads_.clear();
}

std::vector<RankMemory> Crew::memory() const {
  std::vector<RankMemory> all;
  for (const auto& executor : executors_) all.push_back(executor->memory());
  return all;
}

std::vector<RankUse> Crew::use() const {
  std::vector<RankUse> all;
  {
    const std::lock_guard lock(mutex_);
    all = use_;
  }
  for (int rank = 0; rank < size(); ++rank) {
    for (const auto& communicator : communicators_->of_rank(rank)) {
      if (communicator == nullptr) continue;
      all[static_cast<std::size_t>(rank)].sent_bytes += communicator->sent_bytes();
    }
  }
  return all;
}

std::vector<RankRun> Crew::last_run() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::vector<RankProfile> Crew::take_profiles() {
  const std::lock_guard lock(mutex_);
  std::vector<RankProfile> all;
  for (const auto& executor : executors_) all.push_back(executor->take_profile());
  return all;
}

std::vector<RankTimeline> Crew::take_timelines() {
  const std::lock_guard lock(mutex_);
  std::vector<RankTimeline> all;
  for (const auto& executor : executors_) all.push_back(executor->take_timeline());
  return all;
}

}  // namespace tutti
