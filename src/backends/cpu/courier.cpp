#include "backends/cpu/courier.h"

#include <utility>

namespace tutti::cpu {

Courier::Courier() : thread_([this] { work(); }) {}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    is_dismissed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Courier::send(std::function<Status()> errand) {
  {
    const std::lock_guard lock(mutex_);
    errand_ = std::move(errand);
    is_under_way_ = true;
  }
  changed_.notify_all();
}

Status Courier::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_under_way_; });
  return std::exchange(result_, Status());
}

void Courier::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_dismissed_ || errand_ != nullptr; });
    if (errand_ == nullptr) return;
    const std::function<Status()> errand = std::exchange(errand_, nullptr);
    lock.unlock();
    Status result = errand();
    lock.lock();
    result_ = std::move(result);
    is_under_way_ = false;
    changed_.notify_all();
  }
}

Status fetch_ahead(Courier& courier, std::size_t count,
                   const std::function<Status(std::size_t)>& fetch,
                   const std::function<void(std::size_t)>& use) {
  if (count == 0) return {};
  TUTTI_RETURN_IF_ERROR(fetch(0));
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count) courier.send([&fetch, i] { return fetch(i + 1); });
    use(i);
    TUTTI_RETURN_IF_ERROR(courier.wait());
  }
  return {};
}

}  // namespace tutti::cpu
