// Memory of the device and pinned memory of the host, with owners.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>

#include "backends/cuda/check.h"
#include "base/thread_pool.h"
#include "runtime/backend.h"

namespace tutti::cuda {

// Makes `device` the calling thread's. Everything here goes through this.
Status activate(int device);

class DeviceMemory final : public DeviceBuffer {
 public:
  // On `device`, which is the thread's afterwards.
  static Result<std::unique_ptr<DeviceMemory>> allocate(int device, std::size_t bytes);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  DeviceMemory(int device, void* data, std::size_t size)
      : device_(device), data_(data), size_(size) {}
  int device_;
  void* data_;
  std::size_t size_;
};

// An event without a time, or with one for marks.
class Event {
 public:
  static Result<std::unique_ptr<Event>> create(bool has_time);
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}
  cudaEvent_t event_;
};

// Returns when the event has happened. Asks for it again and again, with pauses that grow, so that
// the thread never sleeps inside the driver.
Status wait_for(cudaEvent_t event);

// Pinned memory of the host, 64-byte aligned, that all devices reach.
Result<std::shared_ptr<std::byte>> allocate_pinned(std::size_t bytes);

// The first `bytes` of what another process allocated on `device` and shares by `handle`, the bytes
// of a cudaIpcMemHandle_t; this process holds it as long as the result. INVALID_ARGUMENT: a handle
// that is none, or of this process; fewer bytes behind it.
Result<std::shared_ptr<std::byte>> open_shared(int device, std::span<const std::byte> handle,
                                               std::size_t bytes);

// What the driver knows of an address.
struct MemoryFacts {
  bool is_device = false;
  bool is_pinned = false;  // memory of the host that devices reach directly
  int device = 0;
};
Result<MemoryFacts> facts_of(const void* address);

// Pinned memory in two halves, through which pageable memory of the host travels: one is filled or
// emptied by several threads while the other one is on its way. Used by one thread at a time.
class Staging {
 public:
  // `threads`: how many copy, the caller among them; those beside it start with the first large
  // copy.
  static Result<std::unique_ptr<Staging>> create(int threads);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Returns when `host` may be reused; the copy itself may be under way.
  Status upload(cudaStream_t stream, void* target, const void* host, std::size_t bytes);
  Status upload_rows(cudaStream_t stream, const RowCopy& rows);
  // Returns when `host` is filled.
  Status download(cudaStream_t stream, void* host, const void* source, std::size_t bytes);

 private:
  static constexpr std::size_t kHalf = std::size_t{8} << 20;

  Staging() = default;
  std::byte* half(int i) const { return pinned_ + static_cast<std::size_t>(i) * kHalf; }
  Status turn(cudaStream_t stream);  // to the other half, when it is free
  // From and to ordinary memory, by all threads where it is worth it.
  void copy(const RowCopy& rows);
  void copy(void* target, const void* source, std::size_t bytes) {
    copy({target, bytes, source, bytes, bytes, 1});
  }

  std::byte* pinned_ = nullptr;
  std::unique_ptr<Event> free_[2];
  int current_ = 0;
  std::size_t used_ = 0;
  int threads_ = 1;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace tutti::cuda
