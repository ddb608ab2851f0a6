// Calls a function again and again on a thread of its own: --model-control-mode=poll.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace tutti::server {

class Poller {
 public:
  // The first call is one interval from now.
  Poller(std::chrono::milliseconds interval, std::function<void()> poll)
      : thread_([this, interval, poll = std::move(poll)](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); })) {
            if (stop.stop_requested()) return;
            poll();
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the others, and ends before they go
};

}  // namespace tutti::server
