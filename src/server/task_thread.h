// One thread that runs tasks in the order in which they came: what a front end must not wait for.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tutti::server {

class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // runs what was posted, then ends
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void post(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // under mutex_
  bool is_ending_ = false;                   // under mutex_
  std::thread thread_;
};

}  // namespace tutti::server
