#include "comm/rendezvous.h"

#include <algorithm>
#include <thread>

namespace tutti {
namespace {

constexpr int kMaxSpins = 4096;
constexpr int kMinSpins = 64;

inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Rendezvous::Rendezvous(int size, std::chrono::milliseconds timeout, int cores)
    : size_(size),
      timeout_(timeout),
      may_spin_((cores > 0 ? cores : static_cast<int>(std::thread::hardware_concurrency())) > size),
      spin_budget_(kMaxSpins),
      arrived_(static_cast<std::size_t>(size), false) {}

bool Rendezvous::spin(std::uint64_t generation) {
  const int budget = spin_budget_.load(std::memory_order_relaxed);
  for (int i = 0; i < budget; ++i) {
    if (generation_.load(std::memory_order_acquire) != generation) {
      spin_budget_.store(std::min(budget * 2, kMaxSpins), std::memory_order_relaxed);
      return true;
    }
    if (aborted_.load(std::memory_order_acquire)) return false;
    pause_core();
  }
  spin_budget_.store(std::max(budget / 2, kMinSpins), std::memory_order_relaxed);
  return false;
}

Status Rendezvous::missing_ranks(std::string_view what) const {
  std::string names;
  int missing = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (arrived_[static_cast<std::size_t>(rank)]) continue;
    names += str_cat(missing++ > 0 ? ", " : "", rank);
  }
  return Status(StatusCode::kDeadlineExceeded,
                str_cat(what, ": ", missing == 1 ? "rank " : "ranks ", names, " of ", size_,
                        " did not arrive within ", timeout_.count(), " ms"));
}

// Counts the arrival; the last one lets everybody go (and unlocks).
bool Rendezvous::is_last(int rank, std::unique_lock<std::mutex>& lock) {
  arrived_[static_cast<std::size_t>(rank)] = true;
  if (++arrived_count_ < size_) return false;
  arrived_count_ = 0;
  std::fill(arrived_.begin(), arrived_.end(), false);
  generation_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  changed_.notify_all();
  return true;
}

void Rendezvous::arrive_again(int rank) {
  std::unique_lock lock(mutex_);
  const std::uint64_t generation = generation_.load(std::memory_order_relaxed);
  if (is_last(rank, lock)) return;
  if (may_spin_) {
    lock.unlock();
    if (spin(generation)) return;
    lock.lock();
  }
  changed_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != generation; });
}

Status Rendezvous::arrive(int rank, std::string_view what) {
  std::unique_lock lock(mutex_);
  if (!reason_.ok()) return reason_;
  const std::uint64_t generation = generation_.load(std::memory_order_relaxed);
  if (is_last(rank, lock)) return {};
  if (may_spin_) {
    lock.unlock();
    if (spin(generation)) return {};
    lock.lock();
  }
  const auto is_over = [&] {
    return generation_.load(std::memory_order_relaxed) != generation || !reason_.ok();
  };
  if (timeout_.count() == 0) {
    changed_.wait(lock, is_over);
  } else if (!changed_.wait_until(lock, std::chrono::steady_clock::now() + timeout_, is_over)) {
    reason_ = missing_ranks(what);
    aborted_.store(true, std::memory_order_release);
    changed_.notify_all();
    return reason_;
  }
  if (generation_.load(std::memory_order_relaxed) != generation) return {};
  return reason_;
}

void Rendezvous::abort(const Status& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.ok()) return;
    reason_ = reason.ok() ? internal_error("communicator aborted without a reason") : reason;
    aborted_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

Status Rendezvous::state() {
  if (!aborted_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Rendezvous::reset() {
  const std::lock_guard lock(mutex_);
  reason_ = {};
  aborted_.store(false, std::memory_order_release);
  arrived_count_ = 0;
  std::fill(arrived_.begin(), arrived_.end(), false);
}

}  // namespace tutti
