#include "runtime/request_memory.h"

#include <algorithm>

namespace tutti {
namespace {

// Smaller answers are made faster than they are looked for.
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;
// Idle blocks that are kept: answers of a few requests that overlap.
constexpr std::size_t kMostBlocks = 8;

}  // namespace

Status check_names(const MemoryPlaces& places, const std::vector<PlanTensor>& tensors,
                   std::string_view what) {
  for (const auto& [name, place] : places) {
    const bool is_known =
        std::any_of(tensors.begin(), tensors.end(),
                    [&](const PlanTensor& tensor) { return tensor.name == name; });
    if (!is_known) {
      return invalid_argument("the place of ", what, " '", name,
                              "' is given, but there is no such ", what);
    }
  }
  return {};
}

const MemoryPlace* device_place(const MemoryPlaces& places, const std::string& name) {
  const auto it = places.find(name);
  const bool is_device = it != places.end() && it->second.kind == MemoryPlace::Kind::kDevice;
  return is_device ? &it->second : nullptr;
}

Status check_place(const MemoryPlaces& places, const std::string& name, std::string_view what,
                   const Tensor& tensor, Backend& backend) {
  const MemoryPlace* place = device_place(places, name);
  if (place == nullptr) return {};
  return backend.check_device_memory(place->device, tensor.data(), tensor.byte_size())
      .with_context(str_cat(what, " '", name, "'"));
}

struct AnswerMemory::Pool {
  struct Block {
    std::size_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };

  std::shared_ptr<std::byte> take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(idle.begin(), idle.end(),
                                    [&](const Block& block) { return block.bytes == bytes; });
    if (found == idle.end()) return nullptr;
    std::shared_ptr<std::byte> memory = std::move(found->memory);
    idle.erase(found);
    return memory;
  }

  void give_back(std::size_t bytes, std::shared_ptr<std::byte> memory) {
    Block oldest;  // goes after the lock
    const std::lock_guard lock(mutex);
    if (idle.size() >= kMostBlocks) {
      oldest = std::move(idle.front());
      idle.erase(idle.begin());
    }
    idle.push_back({bytes, std::move(memory)});
  }

  std::mutex mutex;
  std::vector<Block> idle;  // under mutex; longest idle first
};

AnswerMemory::AnswerMemory() : pool_(std::make_shared<Pool>()) {}

std::size_t AnswerMemory::idle_blocks() const {
  const std::lock_guard lock(pool_->mutex);
  return pool_->idle.size();
}

Result<Tensor> AnswerMemory::allocate(const TensorDesc& desc, Backend& backend) {
  const std::size_t bytes = desc.byte_size();
  if (bytes < kSmallestBlock) return Tensor::allocate(desc.dtype, desc.dims);
  std::shared_ptr<std::byte> memory = pool_->take(bytes);
  if (memory == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(memory, backend.allocate_host(bytes));
  }
  if (memory == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(desc.dtype, desc.dims));
    const auto owner = std::make_shared<Tensor>(std::move(tensor));
    memory = std::shared_ptr<std::byte>(owner, owner->mutable_data());
  }
  std::byte* data = memory.get();
  const auto lent = std::shared_ptr<const void>(
      data, [pool = pool_, bytes, memory = std::move(memory)](const void*) mutable {
        pool->give_back(bytes, std::move(memory));
      });
  return Tensor::view(desc.dtype, desc.dims, data, lent);
}

}  // namespace tutti
