#include "backends/cuda/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tutti::cuda {

Status activate(int device) {
  thread_local int current = -1;
  if (current == device) return {};
  TUTTI_CUDA(cudaSetDevice(device));
  current = device;
  return {};
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(int device, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(device));
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, std::max<std::size_t>(bytes, 256));
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return to_status(error, "cudaMalloc").with_context(str_cat(bytes, " bytes on GPU ", device));
  }
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, data, bytes));
}

DeviceMemory::~DeviceMemory() {
  (void)activate(device_);
  (void)cudaFree(data_);
}

Result<std::unique_ptr<Event>> Event::create(bool has_time) {
  cudaEvent_t event = nullptr;
  TUTTI_CUDA(
      cudaEventCreateWithFlags(&event, has_time ? cudaEventDefault : cudaEventDisableTiming));
  return std::unique_ptr<Event>(new Event(event));
}

Status wait_for(cudaEvent_t event) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kEager{2000};
  constexpr std::chrono::microseconds kPause{50};
  const Clock::time_point start = Clock::now();
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state != cudaErrorNotReady) return to_status(state, "cudaEventQuery");
    // It stays as the thread's last error, which cuBLASLt would take for one of its own launches.
    (void)cudaGetLastError();
    if (Clock::now() - start < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

Result<std::unique_ptr<Staging>> Staging::create() {
  std::unique_ptr<Staging> staging(new Staging);
  for (auto& event : staging->free_) {
    TUTTI_ASSIGN_OR_RETURN(event, Event::create(false));
  }
  void* pinned = nullptr;
  TUTTI_CUDA(cudaMallocHost(&pinned, 2 * kHalf));
  staging->pinned_ = static_cast<std::byte*>(pinned);
  return staging;
}

Staging::~Staging() {
  if (pinned_ != nullptr) (void)cudaFreeHost(pinned_);
}

Status Staging::turn(cudaStream_t stream) {
  TUTTI_CUDA(cudaEventRecord(free_[current_]->get(), stream));
  current_ = 1 - current_;
  used_ = 0;
  return wait_for(free_[current_]->get());
}

Status Staging::upload(cudaStream_t stream, void* target, const void* host, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(target);
  while (bytes > 0) {
    if (used_ == kHalf) TUTTI_RETURN_IF_ERROR(turn(stream));
    const std::size_t count = std::min(bytes, kHalf - used_);
    std::memcpy(half(current_) + used_, from, count);
    TUTTI_CUDA(cudaMemcpyAsync(to, half(current_) + used_, count, cudaMemcpyHostToDevice, stream));
    // Steps of a cache line, so that copies stay aligned.
    used_ = std::min(kHalf, (used_ + count + 63) / 64 * 64);
    from += count;
    to += count;
    bytes -= count;
  }
  return {};
}

Status Staging::download(cudaStream_t stream, void* host, const void* source, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(host);
  // One half is copied out while the other one is filled.
  TUTTI_RETURN_IF_ERROR(turn(stream));
  std::size_t waiting = 0;  // bytes in the half before the current one
  while (bytes > 0 || waiting > 0) {
    const std::size_t count = std::min(bytes, kHalf);
    if (count > 0) {
      TUTTI_CUDA(cudaMemcpyAsync(half(current_), from, count, cudaMemcpyDeviceToHost, stream));
      TUTTI_CUDA(cudaEventRecord(free_[current_]->get(), stream));
      from += count;
      bytes -= count;
    }
    if (waiting > 0) {
      TUTTI_RETURN_IF_ERROR(wait_for(free_[1 - current_]->get()));
      std::memcpy(to, half(1 - current_), waiting);
      to += waiting;
    }
    waiting = count;
    current_ = 1 - current_;
  }
  used_ = 0;
  return {};
}

}  // namespace tutti::cuda
