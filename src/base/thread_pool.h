// A fixed set of threads that run the pieces of one loop at a time: the cores of one CPU rank.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

class ThreadPool {
 public:
  // `threads` counts the caller: a pool of 1 starts none and runs everything inline.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, worker) over disjoint ranges that cover [0, count), each of at least
  // `grain` items where there are that many; returns when all are done. worker is in [0, size()):
  // two calls that run at the same time have different workers. Not reentrant; body must not throw.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body);

 private:
  void work(int worker);
  void run_pieces(int worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::uint64_t generation_ = 0;  // under mutex_; one a loop
  int running_ = 0;               // under mutex_; workers still in the loop
  bool stopping_ = false;         // under mutex_
  // The loop: written before the workers wake, constant while they run.
  const std::function<void(std::int64_t, std::int64_t, int)>* body_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t piece_ = 0;
  std::atomic<std::int64_t> next_{0};
};

}  // namespace tutti
