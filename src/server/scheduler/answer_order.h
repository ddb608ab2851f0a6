// Lets answers out in the order in which their places were taken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace tutti::server {

// Thread safe.
class AnswerOrder {
 public:
  using Place = std::uint64_t;
  using Answer = std::function<void()>;

  Place take() {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back();
    return first_ + answers_.size() - 1;
  }

  // Calls `answer`, and those after it that waited for it, here or on a thread that is inside
  // give() already; keeps it when an earlier place has none yet. Once for each place.
  void give(Place place, Answer answer) {
    std::unique_lock lock(mutex_);
    answers_[place - first_] = std::move(answer);
    if (is_giving_) return;
    is_giving_ = true;
    while (!answers_.empty() && answers_.front()) {
      const Answer next = *std::move(answers_.front());
      answers_.pop_front();
      ++first_;
      lock.unlock();
      next();
      lock.lock();
    }
    is_giving_ = false;
  }

 private:
  std::mutex mutex_;
  std::deque<std::optional<Answer>> answers_;  // under mutex_; from place first_ on
  Place first_ = 0;                            // under mutex_
  bool is_giving_ = false;                     // under mutex_
};

}  // namespace tutti::server
