// One instance's claims, which requests that it has at a time hold together.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>

#include "server/scheduler/rate_limiter.h"

namespace tutti::server {

// Thread safe. An instance runs one request at a time, so that a second one, which is made ready
// meanwhile, takes nothing from others; but it does not come before whoever waits.
class SharedClaims {
 public:
  // Null stands for no claims at all.
  explicit SharedClaims(RateLimiter::Member* member) : member_(member) {}

  bool is_empty() const { return member_ == nullptr; }
  bool try_acquire();
  // Waits for its turn; false when `stop` is requested before.
  bool acquire(const std::stop_token& stop);
  void release();

 private:
  bool join_locked();

  RateLimiter::Member* const member_;
  std::mutex mutex_;  // before the limiter's
  std::condition_variable_any changed_;
  // Under mutex_.
  int holders_ = 0;
  bool is_acquiring_ = false;  // somebody is in the limiter's line for them
};

// Releases them at the end of a scope.
class ClaimHolder {
 public:
  explicit ClaimHolder(SharedClaims& claims) : claims_(claims) {}
  ~ClaimHolder() { claims_.release(); }
  ClaimHolder(const ClaimHolder&) = delete;
  ClaimHolder& operator=(const ClaimHolder&) = delete;

 private:
  SharedClaims& claims_;
};

}  // namespace tutti::server
