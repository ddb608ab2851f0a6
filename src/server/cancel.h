// Tells whoever works on a request that nobody waits for it any more.
#pragma once

#include <functional>
#include <mutex>

namespace tutti::server {

// Thread safe.
class CancelToken {
 public:
  bool is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  // Runs the hook, on this thread, the first time.
  void cancel() {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return;
      cancelled_ = true;
      hook = std::move(hook_);
    }
    if (hook) hook();
  }

  // One hook at a time; it runs at once when the token is cancelled already.
  void on_cancel(std::function<void()> hook) {
    {
      const std::lock_guard lock(mutex_);
      if (!cancelled_) {
        hook_ = std::move(hook);
        return;
      }
    }
    if (hook) hook();
  }

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;        // under mutex_
  std::function<void()> hook_;    // under mutex_
};

}  // namespace tutti::server
