#include "server/scheduler/request_queue.h"

namespace tutti::server {

Status RequestQueue::push(PendingPtr request) {
  if (waiting_.size() >= capacity_) {
    return unavailable("the queue is full: ", waiting_.size(), " requests wait, the limit is ",
                       capacity_);
  }
  Position position;
  position.waiting = waiting_.insert(waiting_.end(), request);
  if (request->request.deadline) {
    position.deadline = deadlines_.emplace(*request->request.deadline, request);
  }
  positions_.emplace(request.get(), position);
  return Status();
}

PendingPtr RequestQueue::take(std::unordered_map<const PendingRequest*, Position>::iterator found) {
  PendingPtr request = *found->second.waiting;
  waiting_.erase(found->second.waiting);
  if (found->second.deadline) deadlines_.erase(*found->second.deadline);
  positions_.erase(found);
  return request;
}

PendingPtr RequestQueue::pop() {
  if (waiting_.empty()) return nullptr;
  return take(positions_.find(waiting_.front().get()));
}

PendingPtr RequestQueue::remove(const PendingRequest* request) {
  const auto found = positions_.find(request);
  return found == positions_.end() ? nullptr : take(found);
}

std::vector<PendingPtr> RequestQueue::take_expired(TimePoint now) {
  std::vector<PendingPtr> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(take(positions_.find(deadlines_.begin()->second.get())));
  }
  return expired;
}

std::vector<PendingPtr> RequestQueue::take_all() {
  std::vector<PendingPtr> all(waiting_.begin(), waiting_.end());
  waiting_.clear();
  deadlines_.clear();
  positions_.clear();
  return all;
}

std::optional<TimePoint> RequestQueue::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace tutti::server
