// Constants on the devices: ranks that share a card share their copies.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backends/cuda/memory.h"
#include "base/tensor.h"

namespace tutti::cuda {

// Thread-safe.
class Weights {
 public:
  // The copy of `tensor` on `device`; it lives as long as somebody holds it. The tensor's memory
  // outlives that. The upload is done when this returns.
  Result<std::shared_ptr<DeviceMemory>> place(const Tensor& tensor, int device, cudaStream_t stream,
                                              Staging& staging);

 private:
  using Key = std::tuple<const void*, std::size_t, int>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<DeviceMemory>> copies_;  // under mutex_
};

}  // namespace tutti::cuda
