// A barrier that can be aborted and that knows who is missing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti {

// Waiting blocks the thread, so more ranks than cores work well; where cores are plenty, it spins
// for some microseconds first.
class Rendezvous {
 public:
  // timeout: longest wait of one arrival; zero means no limit. cores: 0 asks the machine.
  Rendezvous(int size, std::chrono::milliseconds timeout, int cores = 0);

  int size() const { return size_; }

  // Returns when all ranks have arrived; what happened before any arrival happens before any
  // return. Errors: the reason of an abort; DEADLINE_EXCEEDED, which names the missing ranks and
  // aborts the rest. `what` names the operation in messages.
  Status arrive(int rank, std::string_view what);

  // A further meeting of an operation that all ranks have already met for. Nothing but bounded work
  // lies between the two, so it neither fails nor minds an abort; that is what makes it safe to
  // return from an operation: nobody is still inside.
  void arrive_again(int rank);

  // Everybody who waits or comes later gets `reason`; the first one counts.
  void abort(const Status& reason);
  // OK, or the reason of the abort.
  Status state();

  // As new. Nobody may be inside.
  void reset();

 private:
  bool is_last(int rank, std::unique_lock<std::mutex>& lock);
  bool spin(std::uint64_t generation);
  Status missing_ranks(std::string_view what) const;

  const int size_;
  const std::chrono::milliseconds timeout_;
  const bool may_spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> generation_{0};  // written under mutex_
  std::atomic<bool> aborted_{false};          // written under mutex_
  std::atomic<int> spin_budget_{0};
  int arrived_count_ = 0;      // under mutex_
  std::vector<bool> arrived_;  // under mutex_; by rank, of the current generation
  Status reason_;              // under mutex_
};

}  // namespace tutti
