#include "backends/cuda/weights.h"

namespace tutti::cuda {

Result<std::shared_ptr<DeviceMemory>> Weights::place(const Tensor& tensor, int device,
                                                     cudaStream_t stream, Staging& staging) {
  const Hash128 hash = hash_bytes({tensor.data(), tensor.byte_size()});
  const Key key{hash.high, hash.low, tensor.byte_size(), device};
  // Held during the upload, so that a second rank waits for the copy instead of making one.
  const std::lock_guard lock(mutex_);
  std::weak_ptr<DeviceMemory>& known = copies_[key];
  if (std::shared_ptr<DeviceMemory> copy = known.lock()) return copy;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceMemory::allocate(device, tensor.byte_size()));
  TUTTI_RETURN_IF_ERROR(staging.upload(stream, memory->data(), tensor.data(), tensor.byte_size()));
  TUTTI_ASSIGN_OR_RETURN(const auto done, Event::create(false));
  TUTTI_CUDA(cudaEventRecord(done->get(), stream));
  TUTTI_RETURN_IF_ERROR(wait_for(done->get()));
  std::shared_ptr<DeviceMemory> copy = std::move(memory);
  known = copy;
  return copy;
}

}  // namespace tutti::cuda
