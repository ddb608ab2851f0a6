// A thread of one rank that runs one errand at a time: an exchange that goes on while the rank's
// own threads compute.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace tutti::cpu {

class Courier {
 public:
  Courier();
  ~Courier();  // ends after the errand that is under way
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Starts an errand. The last one has been waited for. Not thread-safe: one owner sends and waits.
  void send(std::function<Status()> errand);

  // Of the last errand, when it is done; OK where none was sent.
  Status wait();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> errand_;  // under mutex_; empty: nothing to do
  bool is_under_way_ = false;       // under mutex_
  bool is_dismissed_ = false;       // under mutex_
  Status result_;                   // under mutex_
  std::thread thread_;
};

// use(i) for i in [0, count), each after fetch(i); fetch(i + 1) runs on the courier while use(i)
// does. Two fetches never overlap. Errors: the first of a fetch, after which nothing is used.
Status fetch_ahead(Courier& courier, std::size_t count,
                   const std::function<Status(std::size_t)>& fetch,
                   const std::function<void(std::size_t)>& use);

}  // namespace tutti::cpu
