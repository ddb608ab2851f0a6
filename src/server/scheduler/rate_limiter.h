// Who may run now: what instances of all models share, taken together and handed out in turn.
//
// An execution claims all of its pools at once or none, so two that overlap cannot hold a part each
// and wait for the other: models that share ranks never interleave their collectives.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::server {

// `count` units of one pool for as long as an execution runs.
struct ResourceClaim {
  std::string pool;
  std::uint64_t count = 1;
  // How many units the pool has, the same in every claim; without, as many as the largest claim.
  std::optional<std::uint64_t> pool_size = std::nullopt;
};

// Thread safe; outlives its members.
class RateLimiter {
 public:
  // One instance. Used by one thread at a time.
  class Member {
   public:
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    bool try_acquire();
    // Waits for its turn; false when `stop` is requested before.
    bool acquire(const std::stop_token& stop);
    void release();
    bool others_wait() const { return limiter_.waiting() > 0; }

   private:
    friend class RateLimiter;
    Member(RateLimiter& limiter, std::vector<ResourceClaim> claims, std::uint64_t weight)
        : limiter_(limiter), claims_(std::move(claims)), weight_(weight) {}

    RateLimiter& limiter_;
    const std::vector<ResourceClaim> claims_;
    const std::uint64_t weight_;
    std::uint64_t used_ = 0;    // executions so far, each as much as the weight
    std::uint64_t ticket_ = 0;  // of the wait
    bool is_granted_ = false;
  };

  // `priority` as in Triton's rate_limiter: a member of priority 2 gets half the turns of one of 1;
  // 0 is 1. INVALID_ARGUMENT names a pool that is too small for a claim.
  Result<std::unique_ptr<Member>> join(std::vector<ResourceClaim> claims, std::uint64_t priority);
  std::size_t waiting() const;  // members inside acquire()

 private:
  struct Pool {
    std::uint64_t taken = 0;
    std::optional<std::uint64_t> size;
    std::multimap<std::uint64_t, const Member*> claims;  // for the largest
  };
  using Reserved = std::map<std::string, std::uint64_t>;

  static std::uint64_t size_of(const Pool& pool);
  bool fits(const Member& member, const Reserved& reserved) const;
  void take(Member& member);
  void grant_waiting();
  bool comes_before(const Member& a, const Member& b) const;

  mutable std::mutex mutex_;
  std::condition_variable_any granted_;
  // Under mutex_, as are the members' counts.
  std::map<std::string, Pool> pools_;
  std::list<Member*> waiting_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t turn_ = 0;  // the least `used_` that was granted last: where new members begin
};

}  // namespace tutti::server
