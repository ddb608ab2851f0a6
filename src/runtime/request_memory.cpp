#include "runtime/request_memory.h"

#include <algorithm>

namespace tutti {
namespace {

// Smaller answers are made faster than they are looked for.
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;

}  // namespace

Status check_names(const MemoryPlaces& places, const std::vector<PlanTensor>& tensors,
                   std::string_view what) {
  for (const auto& [name, place] : places) {
    const bool is_known =
        std::any_of(tensors.begin(), tensors.end(),
                    [&name = name](const PlanTensor& tensor) { return tensor.name == name; });
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

struct BlockPool::Blocks {
  explicit Blocks(std::size_t most) : most_idle(most) {}

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
    if (idle.size() >= most_idle) {
      oldest = std::move(idle.front());
      idle.erase(idle.begin());
    }
    idle.push_back({bytes, std::move(memory)});
  }

  const std::size_t most_idle;
  std::mutex mutex;
  std::vector<Block> idle;  // under mutex; longest idle first
};

BlockPool::BlockPool(std::size_t most_idle) : blocks_(std::make_shared<Blocks>(most_idle)) {}

std::size_t BlockPool::idle_blocks() const {
  const std::lock_guard lock(blocks_->mutex);
  return blocks_->idle.size();
}

void BlockPool::drop_idle() {
  std::vector<Blocks::Block> gone;  // after the lock
  const std::lock_guard lock(blocks_->mutex);
  gone.swap(blocks_->idle);
}

Result<std::shared_ptr<std::byte>> BlockPool::lend(std::size_t bytes, const Make& make) {
  std::shared_ptr<std::byte> memory = blocks_->take(bytes);
  if (memory == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(memory, make());
  }
  if (memory == nullptr) return memory;
  std::byte* data = memory.get();
  return std::shared_ptr<std::byte>(
      data, [blocks = blocks_, bytes, memory = std::move(memory)](std::byte*) mutable {
        blocks->give_back(bytes, std::move(memory));
      });
}

Result<Tensor> AnswerMemory::allocate(const TensorDesc& desc, Backend& backend) {
  const std::size_t bytes = desc.byte_size();
  if (bytes < kSmallestBlock) return Tensor::allocate(desc.dtype, desc.dims);
  const auto make = [&]() -> Result<std::shared_ptr<std::byte>> {
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, backend.allocate_host(bytes));
    if (memory != nullptr) return memory;
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(desc.dtype, desc.dims));
    const auto owner = std::make_shared<Tensor>(std::move(tensor));
    return std::shared_ptr<std::byte>(owner, owner->mutable_data());
  };
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> memory, pool_.lend(bytes, make));
  return Tensor::view(desc.dtype, desc.dims, memory.get(), memory);
}

std::unique_ptr<StagedMemory::Share> StagedMemory::take_share() {
  constexpr int kMost = 2;
  if (taken_.fetch_add(1) < kMost) return std::make_unique<Share>(&taken_);
  taken_.fetch_sub(1);
  return nullptr;
}

Result<Tensor> StagedMemory::room_for(const TensorDesc& desc) {
  const std::size_t bytes = desc.byte_size();
  if (bytes < kSmallestBlock) return Tensor();
  const auto memory = pool_.lend(bytes, [&] { return backend_.allocate_device(device_, bytes); });
  if (memory.status().code() == StatusCode::kResourceExhausted) return Tensor();
  TUTTI_RETURN_IF_ERROR(memory.status());
  if (*memory == nullptr) return Tensor();
  return Tensor::view(desc.dtype, desc.dims, memory->get(), *memory);
}

Result<Tensor> StagedMemory::upload(const Tensor& host) {
  TUTTI_ASSIGN_OR_RETURN(Tensor staged, room_for(host.desc()));
  if (!staged.defined()) return staged;
  TUTTI_RETURN_IF_ERROR(
      backend_.write_device_memory(device_, staged.mutable_data(), host.data(), host.byte_size()));
  return staged;
}

Status StagedMemory::download(const Tensor& staged, Tensor* host) {
  return backend_.read_device_memory(host->mutable_data(), device_, staged.data(),
                                     staged.byte_size());
}

}  // namespace tutti
