// One holder a name at a time; different names at the same time.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

namespace tutti::server {

// Thread safe.
class NameLocks {
 public:
  class Guard {
   public:
    Guard(NameLocks& locks, std::string name) : locks_(locks), name_(std::move(name)) {
      std::unique_lock lock(locks_.mutex_);
      locks_.freed_.wait(lock, [this] { return !locks_.held_.contains(name_); });
      locks_.held_.insert(name_);
    }
    ~Guard() {
      const std::lock_guard lock(locks_.mutex_);
      locks_.held_.erase(name_);
      locks_.freed_.notify_all();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    NameLocks& locks_;
    const std::string name_;
  };

  // Until no name is held.
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return held_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::set<std::string> held_;  // under mutex_
};

}  // namespace tutti::server
