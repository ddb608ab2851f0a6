#include "server/scheduler/request_queue.h"

#include <algorithm>

namespace tutti::server {

Status RequestQueue::push(PendingPtr request, TimePoint now) {
  const std::uint64_t level = options_.level_of(request->request.priority);
  const QueuePolicy& policy = options_.policy_of(level);
  const std::size_t waiting = policy.max_queue_size == 0 ? waiting_.size() : level_sizes_[level];
  const std::size_t limit = policy.max_queue_size == 0 ? options_.capacity : policy.max_queue_size;
  if (waiting >= limit) {
    return unavailable("Exceeds maximum queue size: ", waiting, " requests wait, the limit is ",
                       limit);
  }
  Entry entry;
  entry.place = {level, false, next_number_++};
  entry.queue_deadline = queue_deadline(*request, policy, now);
  set_timer(request.get(), &entry);
  ++level_sizes_[level];
  entries_.emplace(request.get(), entry);
  waiting_.emplace(entry.place, std::move(request));
  return Status();
}

std::optional<TimePoint> RequestQueue::queue_deadline(const PendingRequest& request,
                                                      const QueuePolicy& policy,
                                                      TimePoint now) const {
  std::chrono::microseconds timeout = policy.timeout;
  const auto wanted = request.request.timeout;
  if (policy.allows_override && wanted && (timeout.count() == 0 || *wanted < timeout)) {
    timeout = *wanted;
  }
  if (timeout.count() == 0) return std::nullopt;
  return now + timeout;
}

void RequestQueue::set_timer(const PendingRequest* request, Entry* entry) {
  std::optional<TimePoint> next = request->request.deadline;
  if (entry->queue_deadline && (!next || *entry->queue_deadline < *next)) {
    next = entry->queue_deadline;
  }
  entry->timer.reset();
  if (next) entry->timer = timers_.emplace(*next, request);
}

PendingPtr RequestQueue::take(Entries::iterator found) {
  const Entry& entry = found->second;
  const auto place = waiting_.find(entry.place);
  PendingPtr request = std::move(place->second);
  waiting_.erase(place);
  const auto level = level_sizes_.find(entry.place.level);
  if (--level->second == 0) level_sizes_.erase(level);
  if (entry.timer) timers_.erase(*entry.timer);
  entries_.erase(found);
  return request;
}

PendingPtr RequestQueue::pop() {
  if (waiting_.empty()) return nullptr;
  return take(entries_.find(waiting_.begin()->second.get()));
}

std::vector<PendingPtr> RequestQueue::pop(std::size_t count) {
  std::vector<PendingPtr> taken;
  while (taken.size() < count && !empty()) taken.push_back(pop());
  return taken;
}

PendingPtr RequestQueue::remove(const PendingRequest* request) {
  const auto found = entries_.find(request);
  return found == entries_.end() ? nullptr : take(found);
}

std::vector<RequestQueue::Expired> RequestQueue::expire(TimePoint now) {
  std::vector<Expired> expired;
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const PendingRequest* request = timers_.begin()->second;
    const auto found = entries_.find(request);
    Entry& entry = found->second;
    if (request->request.deadline && *request->request.deadline <= now) {
      expired.push_back({take(found), Status(StatusCode::kDeadlineExceeded,
                                             "the request's time ran out in the queue")});
    } else if (options_.policy_of(entry.place.level).timeout_action == TimeoutAction::kReject) {
      expired.push_back({take(found), unavailable("Request timeout expired in the queue")});
    } else {
      auto node = waiting_.extract(entry.place);
      entry.place.is_delayed = true;
      node.key() = entry.place;
      waiting_.insert(std::move(node));
      timers_.erase(timers_.begin());
      entry.queue_deadline.reset();
      set_timer(request, &entry);
    }
  }
  return expired;
}

std::vector<PendingPtr> RequestQueue::take_all() { return pop(size()); }

std::optional<TimePoint> RequestQueue::next_expiry() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first;
}

void RequestQueue::visit(const std::function<bool(const PendingRequest&)>& visit) const {
  for (const auto& [place, request] : waiting_) {
    if (!visit(*request)) return;
  }
}

}  // namespace tutti::server
