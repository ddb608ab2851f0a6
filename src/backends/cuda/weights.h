// Constants on the devices: what has the same bytes is on a card once, whoever asks for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backends/cuda/memory.h"
#include "base/hash.h"
#include "base/tensor.h"

namespace tutti::cuda {

// Thread-safe.
class Weights {
 public:
  // The copy of `tensor` on `device`; it lives as long as somebody holds it. The upload is done
  // when this returns.
  Result<std::shared_ptr<DeviceMemory>> place(const Tensor& tensor, int device, cudaStream_t stream,
                                              Staging& staging);

 private:
  // By content: addresses of the host come back for other tensors.
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::size_t, int>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<DeviceMemory>> copies_;  // under mutex_
};

}  // namespace tutti::cuda
