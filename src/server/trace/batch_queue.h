// What request threads leave for a thread of its own: bounded, so that whoever puts never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::server {

struct BatchLimits {
  std::size_t capacity = 2048;            // weight that waits at most
  std::size_t batch = 512;                // weight that is worth a batch at once
  std::chrono::milliseconds delay{5000};  // how long an item waits for others
};

template <class Item>
class BatchQueue {
 public:
  using Consume = std::function<void(std::vector<Item>)>;
  // `consume` runs on the queue's thread, one batch after the other.
  BatchQueue(BatchLimits limits, Consume consume)
      : limits_(limits), consume_(std::move(consume)), thread_([this] { work(); }) {}
  // Consumes what is left.
  ~BatchQueue() { close(); }
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // False when there is no room: the item is dropped and its weight counted. There is always room
  // for one of weight 0, but after close().
  bool put(Item item, std::size_t weight = 1) {
    bool is_worth_a_batch = false;
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_ || weight_ + weight > limits_.capacity) {
        dropped_ += weight;
        return false;
      }
      weight_ += weight;
      items_.emplace_back(std::move(item), weight);
      is_worth_a_batch = weight_ >= limits_.batch;
    }
    if (is_worth_a_batch) wake_.notify_one();
    return true;
  }

  std::uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  // Consumes what is there and ends the thread; what comes later is dropped.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_for(lock, limits_.delay,
                     [this] { return is_closed_ || weight_ >= limits_.batch; });
      if (items_.empty()) {
        if (is_closed_) return;
        continue;
      }
      std::vector<Item> batch = take_locked();
      lock.unlock();
      consume_(std::move(batch));
      lock.lock();
    }
  }

  std::vector<Item> take_locked() {
    std::vector<Item> batch;
    std::size_t taken = 0;
    while (!items_.empty() && taken < limits_.batch) {
      taken += items_.front().second;
      batch.push_back(std::move(items_.front().first));
      items_.pop_front();
    }
    weight_ -= taken;
    return batch;
  }

  const BatchLimits limits_;
  const Consume consume_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Under mutex_.
  std::deque<std::pair<Item, std::size_t>> items_;
  std::size_t weight_ = 0;
  std::uint64_t dropped_ = 0;
  bool is_closed_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tutti::server
