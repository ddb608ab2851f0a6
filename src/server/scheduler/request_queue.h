// The requests that wait for an instance of one model: by priority level, then in their order.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/scheduler/pending_request.h"
#include "server/scheduler/scheduling_options.h"

namespace tutti::server {

// A container: no threads, no clock, no locks; the scheduler holds a mutex around every call.
class RequestQueue {
 public:
  explicit RequestQueue(SchedulingOptions options) : options_(std::move(options)) {}

  // UNAVAILABLE when as many wait already as the level's policy, or the capacity, allows.
  Status push(PendingPtr request, TimePoint now);
  PendingPtr pop();  // the first; null when empty
  std::vector<PendingPtr> pop(std::size_t count);
  // Takes out one that waits; null when it is not here (any more).
  PendingPtr remove(const PendingRequest* request);

  struct Expired {
    PendingPtr request;
    Status why;  // DEADLINE_EXCEEDED for its own deadline, UNAVAILABLE for the policy's time-out
  };
  // Takes out those whose time is up at `now`, earliest first; those that a policy only delays go
  // behind the others of their level and stay.
  std::vector<Expired> expire(TimePoint now);
  std::vector<PendingPtr> take_all();
  // When expire() has something to do next.
  std::optional<TimePoint> next_expiry() const;

  // Calls visit(request) in the order of pop() until it returns false.
  void visit(const std::function<bool(const PendingRequest&)>& visit) const;

  std::size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Place {
    std::uint64_t level = 1;
    bool is_delayed = false;
    std::uint64_t number = 0;  // in the order of arrival
    auto operator<=>(const Place&) const = default;
  };
  using Timers = std::multimap<TimePoint, const PendingRequest*>;
  struct Entry {
    Place place;
    std::optional<TimePoint> queue_deadline;  // the policy's
    std::optional<Timers::iterator> timer;    // the earlier of both deadlines
  };
  using Entries = std::unordered_map<const PendingRequest*, Entry>;

  PendingPtr take(Entries::iterator found);
  void set_timer(const PendingRequest* request, Entry* entry);
  std::optional<TimePoint> queue_deadline(const PendingRequest& request, const QueuePolicy& policy,
                                          TimePoint now) const;

  const SchedulingOptions options_;
  std::map<Place, PendingPtr> waiting_;
  std::map<std::uint64_t, std::size_t> level_sizes_;
  Timers timers_;
  Entries entries_;
  std::uint64_t next_number_ = 0;
};

}  // namespace tutti::server
