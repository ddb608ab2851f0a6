#include "server/scheduler/rate_limiter.h"

#include <algorithm>

namespace tutti::server {

Result<std::unique_ptr<RateLimiter::Member>> RateLimiter::join(std::vector<ResourceClaim> claims,
                                                               std::uint64_t priority) {
  // One claim a pool, so that claims of a pool are compared as a whole.
  std::map<std::string, ResourceClaim> sums;
  for (const ResourceClaim& claim : claims) {
    ResourceClaim& sum = sums.try_emplace(claim.pool, ResourceClaim{claim.pool, 0}).first->second;
    sum.count += claim.count;
    sum.pool_size = claim.pool_size;
  }
  claims.clear();
  for (const auto& [pool, claim] : sums) {
    if (claim.pool_size && claim.count > *claim.pool_size) {
      return invalid_argument("resource '", pool, "' is limited to ", *claim.pool_size,
                              ", but one instance needs ", claim.count, " of it");
    }
    if (claim.count > 0) claims.push_back(claim);
  }
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Member> member(
      new Member(*this, std::move(claims), std::max<std::uint64_t>(priority, 1)));
  member->used_ = turn_;
  for (const ResourceClaim& claim : member->claims_) {
    Pool& pool = pools_[claim.pool];
    pool.claims.emplace(claim.count, member.get());
    pool.size = claim.pool_size;
  }
  return member;
}

RateLimiter::Member::~Member() {
  const std::lock_guard lock(limiter_.mutex_);
  for (const ResourceClaim& claim : claims_) {
    auto& pool = limiter_.pools_[claim.pool];
    auto [begin, end] = pool.claims.equal_range(claim.count);
    pool.claims.erase(std::find_if(begin, end, [&](const auto& c) { return c.second == this; }));
    if (pool.claims.empty()) limiter_.pools_.erase(claim.pool);
  }
}

std::uint64_t RateLimiter::size_of(const Pool& pool) {
  return pool.size ? *pool.size : pool.claims.rbegin()->first;
}

// With what those before it in line reserve, so that a wide claim is not starved by narrow ones.
bool RateLimiter::fits(const Member& member, const Reserved& reserved) const {
  return std::all_of(member.claims_.begin(), member.claims_.end(), [&](const ResourceClaim& claim) {
    const Pool& pool = pools_.at(claim.pool);
    const auto held = reserved.find(claim.pool);
    const std::uint64_t used = pool.taken + (held == reserved.end() ? 0 : held->second);
    return used + claim.count <= size_of(pool);
  });
}

std::size_t RateLimiter::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void RateLimiter::take(Member& member) {
  for (const ResourceClaim& claim : member.claims_) pools_[claim.pool].taken += claim.count;
  member.is_granted_ = true;
  // Who paused comes back at the end of the line of those who have not, not ahead of all.
  turn_ = std::max(turn_, member.used_);
  member.used_ += member.weight_;
}

bool RateLimiter::comes_before(const Member& a, const Member& b) const {
  return a.used_ != b.used_ ? a.used_ < b.used_ : a.ticket_ < b.ticket_;
}

void RateLimiter::grant_waiting() {
  Reserved reserved;
  bool is_any_granted = false;
  waiting_.sort([this](const Member* a, const Member* b) { return comes_before(*a, *b); });
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Member& member = **it;
    if (fits(member, reserved)) {
      take(member);
      is_any_granted = true;
      it = waiting_.erase(it);
      continue;
    }
    for (const ResourceClaim& claim : member.claims_) reserved[claim.pool] += claim.count;
    ++it;
  }
  if (is_any_granted) granted_.notify_all();
}

bool RateLimiter::Member::try_acquire() {
  if (claims_.empty()) return true;
  const std::lock_guard lock(limiter_.mutex_);
  Reserved reserved;
  for (const Member* other : limiter_.waiting_) {
    for (const ResourceClaim& claim : other->claims_) reserved[claim.pool] += claim.count;
  }
  if (!limiter_.fits(*this, reserved)) return false;
  limiter_.take(*this);
  return true;
}

bool RateLimiter::Member::acquire(const std::stop_token& stop) {
  if (claims_.empty()) return true;
  std::unique_lock lock(limiter_.mutex_);
  is_granted_ = false;
  used_ = std::max(used_, limiter_.turn_ > weight_ ? limiter_.turn_ - weight_ : 0);
  ticket_ = limiter_.next_ticket_++;
  limiter_.waiting_.push_back(this);
  limiter_.grant_waiting();
  if (limiter_.granted_.wait(lock, stop, [this] { return is_granted_; })) return true;
  limiter_.waiting_.remove(this);
  limiter_.grant_waiting();  // what it had reserved is free
  return false;
}

void RateLimiter::Member::release() {
  if (claims_.empty()) return;
  const std::lock_guard lock(limiter_.mutex_);
  is_granted_ = false;
  for (const ResourceClaim& claim : claims_) limiter_.pools_[claim.pool].taken -= claim.count;
  limiter_.grant_waiting();
}

}  // namespace tutti::server
