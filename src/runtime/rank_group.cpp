#include "runtime/rank_group.h"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

// After a failure, the ranks are given this long to come out before the answer goes, so that in
// general nobody touches the request's buffers any more.
constexpr std::chrono::milliseconds kSettle{50};

TimePoint after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

bool is_aligned(const Tensor& tensor) {
  const std::size_t size = std::max<std::size_t>(dtype_size(tensor.dtype()), 1);
  return reinterpret_cast<std::uintptr_t>(tensor.data()) % size == 0;
}

// Kernels read whole elements; buffers out of a protocol message may begin anywhere.
Result<Tensor> realigned(const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(Tensor copy, Tensor::allocate(tensor.dtype(), tensor.dims()));
  std::memcpy(copy.mutable_data(), tensor.data(), tensor.byte_size());
  return copy;
}

Status check_devices(const Plan& plan, const Backend& backend, std::vector<int>* devices) {
  const int ranks = plan.mesh.num_ranks();
  if (devices->empty()) {
    if (ranks > backend.device_count() && backend.name() != "cpu") {
      return invalid_argument("the plan needs ", ranks, " ranks (mesh ", plan.mesh, "), but ",
                              backend.name(), " has ", backend.device_count(), " devices");
    }
    for (int rank = 0; rank < ranks; ++rank) devices->push_back(rank % backend.device_count());
  }
  if (static_cast<int>(devices->size()) != ranks) {
    return invalid_argument("the plan was compiled for ", ranks, " ranks (mesh ", plan.mesh,
                            "), but ", devices->size(), " devices are given");
  }
  return {};
}

}  // namespace

RankGroup::RankGroup(std::shared_ptr<const Plan> plan, Backend& backend, RankGroupOptions options)
    : plan_(std::move(plan)),
      backend_(backend),
      options_(std::move(options)),
      bindings_(*plan_),
      prologue_keys_(*plan_),
      prologue_cache_(options_.prologue_capacity) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  crew_options_.threads_per_rank = options_.threads_per_rank > 0
                                       ? options_.threads_per_rank
                                       : std::max(cores / plan_->mesh.num_ranks(), 1);
  crew_options_.communicators.timeout = options_.collective_timeout;
  crew_options_.executor.max_programs = options_.max_programs;
  crew_options_.executor.prologue_slots = prologue_cache_.stats().capacity;
  crew_options_.executor.hooks = options_.hooks;
}

Result<std::unique_ptr<RankGroup>> RankGroup::create(std::shared_ptr<const Plan> plan,
                                                     Backend& backend, RankGroupOptions options) {
  std::vector<int> devices = options.devices;
  TUTTI_RETURN_IF_ERROR(check_devices(*plan, backend, &devices));
  std::unique_ptr<RankGroup> group(new RankGroup(std::move(plan), backend, std::move(options)));
  group->crew_options_.devices = std::move(devices);
  for (const Artifact& artifact : group->plan_->artifacts) backend.offer(artifact);
  const int first = group->crew_options_.devices.front();
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> on_device,
                         backend.allocate_device(first, 1));
  if (on_device != nullptr) group->staged_ = std::make_unique<StagedMemory>(backend, first);
  TUTTI_ASSIGN_OR_RETURN(group->crew_, Crew::create(group->plan_, backend, group->crew_options_));
  group->keeper_ = std::thread([raw = group.get()] { raw->keep(); });
  return group;
}

RankGroup::~RankGroup() {
  stop();
  if (keeper_.joinable()) keeper_.join();
  if (crew_ == nullptr) return;
  crew_->wait_until_out(after(options_.stall_grace));
  crew_->dismiss();
}

void RankGroup::stop() {
  std::shared_ptr<Crew> crew;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == GroupState::kRunning) crew = crew_;
    apply_locked(GroupEvent::kStop);
  }
  if (crew != nullptr) crew->condemn(unavailable("the rank group is stopped"));
}

GroupState RankGroup::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void RankGroup::apply_locked(GroupEvent event) {
  if (const std::optional<GroupState> next = next_state(state_, event)) state_ = *next;
  changed_.notify_all();
  if (state_ == GroupState::kFailed || state_ == GroupState::kStopped) broken_.notify_one();
}

// Waits for the group to be idle and makes it running.
Result<std::shared_ptr<Crew>> RankGroup::acquire(const RunOptions& options) {
  const std::stop_callback wake(options.cancel, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  if (state_ == GroupState::kFailed && !rebuild_error_.ok()) {
    is_retry_wanted_ = true;
    broken_.notify_one();
  }
  const auto is_over = [&] {
    return state_ == GroupState::kIdle || state_ == GroupState::kStopped ||
           (state_ == GroupState::kFailed && !rebuild_error_.ok() && !is_retry_wanted_) ||
           options.cancel.stop_requested();
  };
  if (options.deadline == kNoDeadline) {
    changed_.wait(lock, is_over);
  } else if (!changed_.wait_until(lock, options.deadline, is_over)) {
    return Status(StatusCode::kDeadlineExceeded,
                  str_cat("deadline exceeded: the rank group is still ", group_state_name(state_)));
  }
  if (options.cancel.stop_requested()) {
    return Status(StatusCode::kCancelled, "the request was cancelled");
  }
  if (state_ == GroupState::kStopped) return unavailable("the rank group is stopped");
  if (state_ == GroupState::kFailed) {
    return unavailable("the rank group could not be rebuilt: ", rebuild_error_.message());
  }
  apply_locked(GroupEvent::kLaunch);
  return crew_;
}

void RankGroup::release(const std::shared_ptr<Crew>& crew, const Status& status) {
  bool is_sound = status.ok();
  if (!is_sound) {
    // Cancelled, too late or refused, and all ranks are fine: nobody has to hear of a failed group.
    const bool is_out = crew->wait_until_out(after(std::min(kSettle, options_.stall_grace)));
    is_sound = is_out && !crew->is_damaged() && crew->renew().ok();
  }
  const std::lock_guard lock(mutex_);
  apply_locked(is_sound ? GroupEvent::kFinish : GroupEvent::kFail);
}

Status RankGroup::launch(const std::shared_ptr<RankJob>& job, const RunOptions& options,
                         const Hash128* prologue_key) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<Crew> crew, acquire(options));
  if (prologue_key != nullptr) {
    const PrologueCache::Place place = prologue_cache_.find_or_replace(*prologue_key);
    job->prologue_slot = place.slot;
    job->runs_prologue = !place.is_filled;
  }
  const TimePoint started = std::chrono::steady_clock::now();
  const Status status = crew->run(job, options.deadline, options.cancel);
  if (options.rank_runs != nullptr) *options.rank_runs = crew->last_run();
  if (status.ok() && options.times != nullptr) {
    *options.times = {started, std::chrono::steady_clock::now()};
  }
  if (status.ok() && job->runs_prologue) prologue_cache_.commit(job->prologue_slot);
  release(crew, status);
  return status;
}

Result<std::vector<Tensor>> RankGroup::allocate_outputs(const ShapeBinding& shapes,
                                                        const RunOptions& options) {
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < shapes.outputs.size(); ++i) {
    const TensorDesc& desc = shapes.outputs[i];
    const std::string& name = plan_->outputs[i].name;
    TUTTI_ASSIGN_OR_RETURN(Tensor output, options.allocate_output
                                              ? options.allocate_output(i, desc)
                                              : answer_memory_.allocate(desc, backend_));
    if (!(output.desc() == desc)) {
      return internal_error("output '", name, "' is given memory for ", output.byte_size(),
                            " bytes, expected ", desc.byte_size());
    }
    TUTTI_RETURN_IF_ERROR(check_place(options.output_places, name, "output", output, backend_));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

Status RankGroup::check_places(std::span<const Tensor> inputs, const RunOptions& options) {
  TUTTI_RETURN_IF_ERROR(check_names(options.input_places, plan_->inputs, "input"));
  TUTTI_RETURN_IF_ERROR(check_names(options.output_places, plan_->outputs, "output"));
  if (!options.output_places.empty() && !options.allocate_output) {
    return invalid_argument("the place of output '", options.output_places.begin()->first,
                            "' is given, but no memory for it");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(
        check_place(options.input_places, plan_->inputs[i].name, "input", inputs[i], backend_));
  }
  return {};
}

// The content of inputs on a device counts as much: what the prologue reads of them is fetched.
Result<Hash128> RankGroup::prologue_key(const RankJob& job, const RunOptions& options) {
  if (options.input_places.empty()) return prologue_keys_.key_of(job.inputs, *job.shapes);
  std::vector<Tensor> readable = job.inputs;
  for (const std::size_t i : prologue_keys_.inputs()) {
    const MemoryPlace* place = device_place(options.input_places, plan_->inputs[i].name);
    if (place == nullptr) continue;
    const Tensor& input = job.inputs[i];
    TUTTI_ASSIGN_OR_RETURN(readable[i], Tensor::allocate(input.dtype(), input.dims()));
    TUTTI_RETURN_IF_ERROR(backend_.read_device_memory(readable[i].mutable_data(), place->device,
                                                      input.data(), input.byte_size()));
  }
  return prologue_keys_.key_of(readable, *job.shapes);
}

Result<std::vector<Tensor>> RankGroup::run(std::span<const Tensor> inputs,
                                           const RunOptions& options) {
  std::unique_ptr<StagedMemory::Share> share;  // longer than the job
  auto job = std::make_shared<RankJob>();
  TUTTI_ASSIGN_OR_RETURN(job->shapes, bindings_.find_or_bind(inputs));
  TUTTI_RETURN_IF_ERROR(check_places(inputs, options));
  TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, allocate_outputs(*job->shapes, options));
  job->inputs.assign(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_aligned(inputs[i])) continue;
    if (device_place(options.input_places, plan_->inputs[i].name) != nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(job->inputs[i], realigned(inputs[i]));
  }
  job->outputs = outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_aligned(outputs[i])) continue;
    if (device_place(options.output_places, plan_->outputs[i].name) != nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(job->outputs[i],
                           Tensor::allocate(outputs[i].dtype(), outputs[i].dims()));
  }
  job->is_profiled = options.is_profiled;
  Hash128 key;
  if (prologue_keys_.has_prologue()) {
    TUTTI_ASSIGN_OR_RETURN(key, prologue_key(*job, options));
  }
  std::vector<bool> is_staged(outputs.size(), false);
  // What runs at once gets no faster by it.
  if (staged_ != nullptr && state() == GroupState::kRunning) share = staged_->take_share();
  if (share != nullptr) TUTTI_RETURN_IF_ERROR(stage(job.get(), &is_staged, options));
  TUTTI_RETURN_IF_ERROR(launch(job, options, prologue_keys_.has_prologue() ? &key : nullptr));
  TUTTI_RETURN_IF_ERROR(give_outputs(*job, is_staged, &outputs));
  return outputs;
}

// Puts the device's places for those of the host that are large.
Status RankGroup::stage(RankJob* job, std::vector<bool>* is_staged, const RunOptions& options) {
  for (std::size_t i = 0; i < job->inputs.size(); ++i) {
    if (device_place(options.input_places, plan_->inputs[i].name) != nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(Tensor staged, staged_->upload(job->inputs[i]));
    if (staged.defined()) job->inputs[i] = std::move(staged);
  }
  for (std::size_t i = 0; i < job->outputs.size(); ++i) {
    if (device_place(options.output_places, plan_->outputs[i].name) != nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(Tensor staged, staged_->room_for(job->outputs[i].desc()));
    if (!staged.defined()) continue;
    job->outputs[i] = std::move(staged);
    (*is_staged)[i] = true;
  }
  return {};
}

// Fills those that were not written in place.
Status RankGroup::give_outputs(const RankJob& job, const std::vector<bool>& is_staged,
                               std::vector<Tensor>* outputs) {
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    Tensor& output = (*outputs)[i];
    const Tensor& written = job.outputs[i];
    if (output.data() == written.data()) continue;
    if (is_staged[i]) {
      TUTTI_RETURN_IF_ERROR(staged_->download(written, &output));
    } else if (output.byte_size() > 0) {
      std::memcpy(output.mutable_data(), written.data(), output.byte_size());
    }
  }
  return {};
}

Status RankGroup::prepare(std::vector<TensorDesc> inputs, const RunOptions& options) {
  auto job = std::make_shared<RankJob>();
  TUTTI_ASSIGN_OR_RETURN(job->shapes, bind_shapes(*plan_, std::move(inputs)));
  job->only_prepares = true;
  return launch(job, options, nullptr);
}

void RankGroup::keep() {
  std::unique_lock lock(mutex_);
  for (;;) {
    broken_.wait(lock, [&] {
      return state_ == GroupState::kStopped ||
             (state_ == GroupState::kFailed && (rebuild_error_.ok() || is_retry_wanted_));
    });
    if (state_ == GroupState::kStopped) return;
    apply_locked(GroupEvent::kBeginRebuild);
    is_retry_wanted_ = false;
    std::shared_ptr<Crew> old = std::move(crew_);
    lock.unlock();
    Result<std::shared_ptr<Crew>> next = rebuild(std::move(old));
    lock.lock();
    rebuild_error_ = next.status();
    if (next.ok()) crew_ = *std::move(next);
    apply_locked(rebuild_error_.ok() ? GroupEvent::kRebuilt : GroupEvent::kRebuildFailed);
  }
}

// The same crew where it is sound, a new one otherwise. No lock is held: this may take seconds.
Result<std::shared_ptr<Crew>> RankGroup::rebuild(std::shared_ptr<Crew> crew) {
  if (crew != nullptr) {
    const bool is_out = crew->wait_until_out(after(options_.stall_grace));
    if (is_out && !crew->is_damaged() && crew->renew().ok()) return crew;
    crew->dismiss();
    crew.reset();  // before the new one takes memory
    if (staged_ != nullptr) staged_->drop_idle();
    prologue_cache_.clear();
  }
  auto next = Crew::create(plan_, backend_, crew_options_);
  if (next.ok()) rebuilds_.fetch_add(1, std::memory_order_relaxed);
  return next;
}

std::vector<RankMemory> RankGroup::memory() const {
  const std::lock_guard lock(mutex_);
  return crew_ == nullptr ? std::vector<RankMemory>() : crew_->memory();
}

std::vector<RankUse> RankGroup::use() const {
  const std::lock_guard lock(mutex_);
  return crew_ == nullptr ? std::vector<RankUse>() : crew_->use();
}

std::vector<std::int64_t> RankGroup::sent_bytes() const {
  std::vector<std::int64_t> sent;
  for (const RankUse& rank : use()) sent.push_back(rank.sent_bytes);
  return sent;
}

std::vector<RankProfile> RankGroup::take_profiles() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != GroupState::kRunning; });
  // Failed: ranks may still be on their way out.
  return state_ == GroupState::kIdle ? crew_->take_profiles() : std::vector<RankProfile>();
}

std::vector<RankTimeline> RankGroup::take_timelines() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != GroupState::kRunning; });
  return state_ == GroupState::kIdle ? crew_->take_timelines() : std::vector<RankTimeline>();
}

}  // namespace tutti
