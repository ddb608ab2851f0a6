#include "base/thread_pool.h"

#include <algorithm>

namespace tutti {

ThreadPool::ThreadPool(int threads) {
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (workers_.empty() || count <= grain) {
    body(0, count, 0);
    return;
  }
  // Four pieces a thread even out workers that start late, without many hand-overs.
  const std::int64_t pieces = std::min<std::int64_t>((count + grain - 1) / grain, 4LL * size());
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    piece_ = (count + pieces - 1) / pieces;
    next_.store(0, std::memory_order_relaxed);
    running_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  run_pieces(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  body_ = nullptr;
}

void ThreadPool::run_pieces(int worker) {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(piece_, std::memory_order_relaxed);
    if (begin >= count_) return;
    (*body_)(begin, std::min(begin + piece_, count_), worker);
  }
}

void ThreadPool::work(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    run_pieces(worker);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace tutti
