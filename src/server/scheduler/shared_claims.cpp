#include "server/scheduler/shared_claims.h"

namespace tutti::server {

bool SharedClaims::join_locked() {
  if (holders_ == 0 || member_->others_wait()) return false;
  ++holders_;
  return true;
}

bool SharedClaims::try_acquire() {
  if (member_ == nullptr) return true;
  const std::lock_guard lock(mutex_);
  if (join_locked()) return true;
  if (holders_ > 0 || is_acquiring_ || !member_->try_acquire()) return false;
  holders_ = 1;
  return true;
}

bool SharedClaims::acquire(const std::stop_token& stop) {
  if (member_ == nullptr) return true;
  std::unique_lock lock(mutex_);
  while (!join_locked()) {
    if (holders_ == 0 && !is_acquiring_) {
      is_acquiring_ = true;
      lock.unlock();
      const bool is_acquired = member_->acquire(stop);
      lock.lock();
      is_acquiring_ = false;
      if (is_acquired) holders_ = 1;
      changed_.notify_all();
      return is_acquired;
    }
    const int holders = holders_;
    const bool was_acquiring = is_acquiring_;
    const bool goes_on = changed_.wait(
        lock, stop, [&] { return holders_ != holders || is_acquiring_ != was_acquiring; });
    if (!goes_on) return false;
  }
  return true;
}

void SharedClaims::release() {
  if (member_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (--holders_ == 0) member_->release();
  changed_.notify_all();
}

}  // namespace tutti::server
