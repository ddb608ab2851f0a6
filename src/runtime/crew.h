// One incarnation of a rank group: communicators, executors and a thread for each rank.
//
// Everything that a rank's thread touches belongs to the crew, and every thread holds the crew: one
// that stalls can be left behind and finds its memory intact when it wakes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "comm/mesh_communicators.h"
#include "runtime/executor.h"

namespace tutti {

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kNoDeadline = TimePoint::max();

struct CrewOptions {
  std::vector<int> devices;  // by rank
  int threads_per_rank = 1;
  LocalCommunicatorOptions communicators;
  ExecutorOptions executor;  // rank and gives_outputs are set for each rank; rank 0 gives them
};

class Crew : public std::enable_shared_from_this<Crew> {
 public:
  // Devices, executors and waiting threads for all ranks of the plan. The backend outlives the
  // crew, that is, any thread that was left behind.
  static Result<std::shared_ptr<Crew>> create(std::shared_ptr<const Plan> plan, Backend& backend,
                                              const CrewOptions& options);

  int size() const { return static_cast<int>(executors_.size()); }

  // start() and wait() in one. What is known to be short runs on the caller's own thread, which
  // saves two changes of threads.
  Status run(const std::shared_ptr<RankJob>& job, TimePoint deadline,
             const std::stop_token& cancel);

  // Every rank runs the job. All must be out of the last one.
  void start(std::shared_ptr<RankJob> job);

  // Waits until all ranks are done, one has failed, the deadline passes or `cancel` is requested;
  // in the last two cases, condemns the run. OK, or what the request fails with: CANCELLED,
  // DEADLINE_EXCEEDED naming the ranks that hold up the others, INVALID_ARGUMENT or UNIMPLEMENTED
  // when a rank says so of the request or the plan, RESOURCE_EXHAUSTED when its device has no room,
  // and UNAVAILABLE otherwise. The first rank that
  // failed is named.
  Status wait(TimePoint deadline, const std::stop_token& cancel);

  // Ends the run with this reason, unless it has another already: ranks give up before their next
  // node, collectives return. Any thread.
  void condemn(const Status& reason);

  // True when no rank runs any more; waits for that until `until`.
  bool wait_until_out(TimePoint until);

  // The last run has left ranks whose state is unknown: an exception or an unexpected error.
  bool is_damaged();

  // After a failed run: ready for another. All ranks must be out.
  Status renew();

  // Ends the threads; those that are still running are left behind and end when they come back.
  void dismiss();

  std::vector<RankMemory> memory() const;
  std::vector<RankUse> use() const;       // by rank, since the start
  std::vector<RankRun> last_run() const;  // by rank; of a run that goes on as far as it is
  // No run may be going on.
  std::vector<RankProfile> take_profiles();
  std::vector<RankTimeline> take_timelines();

 private:
  Crew(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  void work(int rank);
  bool is_short(const RankJob& job, TimePoint deadline) const;
  Status run_here(const std::shared_ptr<RankJob>& job, const std::stop_token& cancel);
  void begin_locked(std::shared_ptr<RankJob> job);
  Status run_rank(int rank, const RankJob& job, RankRun* run);
  Status run_guarded(int rank, const RankJob& job);
  void report(int rank, const RankRun& run, const Status& status);
  void mark_damaged();
  Status late_ranks_locked() const;

  const std::shared_ptr<const Plan> plan_;
  std::unique_ptr<MeshCommunicators> communicators_;
  std::vector<std::unique_ptr<Executor>> executors_;  // by rank; used by its thread during a run
  std::vector<std::thread> threads_;                  // start() to dismiss(), by the owner

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  // Under mutex_.
  std::shared_ptr<RankJob> job_;
  std::uint64_t job_number_ = 0;
  std::vector<bool> is_running_;
  int running_ = 0;
  std::vector<RankRun> runs_;  // the last
  std::vector<RankUse> use_;   // without sent_bytes
  Status verdict_;
  bool is_damaged_ = false;
  bool is_dismissed_ = false;
};

}  // namespace tutti
