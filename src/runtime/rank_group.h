// The ranks that one instance owns: launched together for each request, failing together, rebuilt
// together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "runtime/crew.h"
#include "runtime/group_state.h"
#include "runtime/prologue_cache.h"
#include "runtime/request_memory.h"

namespace tutti {

struct RankGroupOptions {
  std::vector<int> devices;   // one a rank; empty: 0, 1, .. as far as the backend has them
  int threads_per_rank = 0;   // 0: hardware threads shared out, at least 1
  int prologue_capacity = 8;  // results kept, for as many contents of the invariant inputs
  int max_programs = 4;       // combinations of sizes for which kernels are kept
  // Longest wait for the other ranks in one collective; zero: the request's deadline alone counts.
  std::chrono::milliseconds collective_timeout{0};
  // How long a failed run's ranks may take to come back before their threads are left behind.
  std::chrono::milliseconds stall_grace{2000};
  std::shared_ptr<RankHooks> hooks;  // optional
};

// Memory for an output, as large as `desc` says. The tensor keeps it alive.
using OutputAllocator = std::function<Result<Tensor>(std::size_t output, const TensorDesc& desc)>;

// When the ranks had a request.
struct RunTimes {
  TimePoint started;
  TimePoint finished;
};

struct RunOptions {
  TimePoint deadline = kNoDeadline;
  std::stop_token cancel;           // may be requested from any thread
  OutputAllocator allocate_output;  // empty: the group lends memory of its own
  // Tensors of the request that lie in the memory of a device. Their data() is an address there.
  MemoryPlaces input_places;
  MemoryPlaces output_places;  // of what allocate_output gives
  bool is_profiled = false;    // add to the profile
  RunTimes* times = nullptr;   // filled by a run that succeeds
  // Optional: set when the run is over, well or not, to what each rank did.
  std::vector<RankRun>* rank_runs = nullptr;
};

// One request runs at a time; others wait for it. Where devices have memory of their own, the large
// tensors of one that waits go up meanwhile, and its answers come down while the next one runs
// (StagedMemory). All functions are thread-safe.
class RankGroup {
 public:
  // Errors: devices that are not as many as ranks (both numbers named), what the backend refuses.
  // The backend outlives the process's last run on it.
  static Result<std::unique_ptr<RankGroup>> create(std::shared_ptr<const Plan> plan,
                                                   Backend& backend, RankGroupOptions options);
  ~RankGroup();

  // Inputs and outputs in the order of the plan. Ranks read inputs and write outputs in place, and
  // a rank that stalls may do so after the answer: the tensors' owners keep their memory valid.
  // Errors: INVALID_ARGUMENT for inputs that do not fit; UNAVAILABLE "rank 3 of 4: ..." for the
  // first rank that failed, or when the group is stopped or cannot be rebuilt; DEADLINE_EXCEEDED
  // with the ranks that did not finish; CANCELLED. Where a kernel finds the fault with the
  // request's content or has no form for its sizes, the code is its INVALID_ARGUMENT or
  // UNIMPLEMENTED; RESOURCE_EXHAUSTED where a device has no room for a request of these sizes;
  // INVALID_ARGUMENT also for device memory that the backend does not take. After an error the
  // group mends itself, and the next request works.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, const RunOptions& options);

  // Makes the kernels for these sizes on all ranks, so that the first request need not.
  Status prepare(std::vector<TensorDesc> inputs, const RunOptions& options);

  // Fails the running request and all later ones with UNAVAILABLE.
  void stop();

  GroupState state() const;
  bool is_ready() const { return tutti::is_ready(state()); }
  PrologueStats prologue_stats() const { return prologue_cache_.stats(); }
  std::vector<RankMemory> memory() const;  // by rank; empty while rebuilding
  std::vector<RankUse> use() const;        // by rank; empty while rebuilding
  // What each rank sent to others in exchanges since its group was made or rebuilt.
  std::vector<std::int64_t> sent_bytes() const;
  // How often the ranks had to be made anew after a failure.
  std::int64_t rebuilds() const { return rebuilds_.load(std::memory_order_relaxed); }
  // Times since the last call, by rank; waits for a running request.
  std::vector<RankProfile> take_profiles();
  // The last profiled request step by step, by rank; waits for a running request.
  std::vector<RankTimeline> take_timelines();
  // Requests that are worth giving at a time: one more than runs, where tensors travel meanwhile.
  int concurrency() const { return staged_ == nullptr ? 1 : 2; }
  int threads_per_rank() const { return crew_options_.threads_per_rank; }

 private:
  RankGroup(std::shared_ptr<const Plan> plan, Backend& backend, RankGroupOptions options);

  Result<std::shared_ptr<Crew>> acquire(const RunOptions& options);
  void release(const std::shared_ptr<Crew>& crew, const Status& status);
  Status launch(const std::shared_ptr<RankJob>& job, const RunOptions& options,
                const Hash128* prologue_key);
  Result<std::vector<Tensor>> allocate_outputs(const ShapeBinding& shapes,
                                               const RunOptions& options);
  Status check_places(std::span<const Tensor> inputs, const RunOptions& options);
  // `is_staged`: by output.
  Status stage(RankJob* job, std::vector<bool>* is_staged, const RunOptions& options);
  Status give_outputs(const RankJob& job, const std::vector<bool>& is_staged,
                      std::vector<Tensor>* outputs);
  Result<Hash128> prologue_key(const RankJob& job, const RunOptions& options);
  void apply_locked(GroupEvent event);
  void keep();  // the keeper's thread: rebuilds what has failed
  Result<std::shared_ptr<Crew>> rebuild(std::shared_ptr<Crew> crew);

  const std::shared_ptr<const Plan> plan_;
  Backend& backend_;
  const RankGroupOptions options_;
  CrewOptions crew_options_;
  ShapeBindings bindings_;
  const PrologueKeys prologue_keys_;
  PrologueCache prologue_cache_;  // used by who runs or rebuilds
  AnswerMemory answer_memory_;
  std::atomic<std::int64_t> rebuilds_{0};
  std::unique_ptr<StagedMemory> staged_;  // null where tensors are better off on the host

  // Lock order: this one before a crew's.
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for who waits for the group
  std::condition_variable broken_;   // for the keeper
  // Under mutex_.
  GroupState state_ = GroupState::kIdle;
  std::shared_ptr<Crew> crew_;
  Status rebuild_error_;          // of the last attempt
  bool is_retry_wanted_ = false;  // a request came after a failed attempt
  std::thread keeper_;
};

}  // namespace tutti
