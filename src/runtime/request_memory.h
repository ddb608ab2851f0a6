// The memory that a request's tensors lie in: checked before ranks touch it, and lent for answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/plan.h"
#include "runtime/backend.h"
#include "runtime/memory_place.h"

namespace tutti {

// Every name in `places` is one of `tensors`. `what`: "input" or "output".
Status check_names(const MemoryPlaces& places, const std::vector<PlanTensor>& tensors,
                   std::string_view what);

// The device that tensor `name` lies on; null for host memory.
const MemoryPlace* device_place(const MemoryPlaces& places, const std::string& name);

// INVALID_ARGUMENT for device memory that the backend does not take; nothing for host memory.
Status check_place(const MemoryPlaces& places, const std::string& name, std::string_view what,
                   const Tensor& tensor, Backend& backend);

// Blocks that come back when nobody holds them any more: large ones are costly to make.
// Thread-safe; blocks may outlive it.
class BlockPool {
 public:
  explicit BlockPool(std::size_t most_idle = 8);  // as many are kept
  using Make = std::function<Result<std::shared_ptr<std::byte>>()>;
  // An idle block of that size, else what `make` gives, which may be null.
  Result<std::shared_ptr<std::byte>> lend(std::size_t bytes, const Make& make);
  void drop_idle();
  std::size_t idle_blocks() const;

 private:
  struct Blocks;
  const std::shared_ptr<Blocks> blocks_;
};

// Memory for answers, pinned where devices want that.
class AnswerMemory {
 public:
  // From the backend where it has its own kind, otherwise ordinary.
  Result<Tensor> allocate(const TensorDesc& desc, Backend& backend);

  std::size_t idle_blocks() const { return pool_.idle_blocks(); }

 private:
  BlockPool pool_;
};

// Tensors of requests in memory of a device, so that they travel while the ranks run another
// request. Two requests at a time have such tensors: the one that runs and the one that comes next.
// Thread-safe; a tensor may outlive it, and its memory is given to nobody else before it has gone.
class StagedMemory {
 public:
  // One request's share, for as long as it lives.
  class Share {
   public:
    explicit Share(std::atomic<int>* taken) : taken_(taken) {}
    ~Share() { taken_->fetch_sub(1); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    std::atomic<int>* taken_;
  };

  StagedMemory(Backend& backend, int device) : backend_(backend), device_(device) {}

  // Null when two have theirs. Any tensor below is one's that has a share.
  std::unique_ptr<Share> take_share();

  // Undefined where the tensor had better stay on the host: it is small, the backend does not want
  // it, or the device is full.
  Result<Tensor> room_for(const TensorDesc& desc);
  Result<Tensor> upload(const Tensor& host);
  Status download(const Tensor& staged, Tensor* host);

  void drop_idle() { pool_.drop_idle(); }
  MemoryPlace place() const { return {MemoryPlace::Kind::kDevice, device_}; }

 private:
  Backend& backend_;
  const int device_;
  BlockPool pool_{64};  // giving memory back stops the device
  std::atomic<int> taken_{0};
};

}  // namespace tutti
