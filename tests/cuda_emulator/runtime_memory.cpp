// CUDA's run time for memory: allocations, copies, what the driver knows of an address.
#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "capture.h"
#include "thread_state.h"

namespace tutti::cuda_emulator {
namespace {

double seconds_for(std::size_t bytes) { return 1e-6 + static_cast<double>(bytes) * 1e-11; }

bool is_known(const void* address) { return Machine::get().memory().find(address).has_value(); }

// "" when `bytes` from `address` lie in one allocation, or in memory of the host.
std::string objection(const void* address, std::size_t bytes) {
  const auto lies_in = Machine::get().memory().find(address);
  if (!lies_in || reinterpret_cast<std::uintptr_t>(address) + bytes <= lies_in->end()) return "";
  return std::to_string(bytes) + " bytes go beyond an allocation of " +
         std::to_string(lies_in->size);
}

struct Rows {
  void* target;
  std::size_t target_stride;
  const void* source;
  std::size_t source_stride;
  std::size_t width;
  std::size_t height;

  std::string copy() const {
    if (width == 0 || height == 0) return "";
    for (const std::string& why : {objection(source, (height - 1) * source_stride + width),
                                   objection(target, (height - 1) * target_stride + width)}) {
      if (!why.empty()) return why;
    }
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(target) + row * target_stride,
                   static_cast<const char*>(source) + row * source_stride, width);
    }
    return "";
  }
};

// Pageable memory of the host is read before the call returns, and written before it returns.
cudaError_t copy(const Rows& rows, cudaStream_t handle, bool waits) {
  Machine& machine = Machine::get();
  auto lock = machine.lock();
  Stream* stream = machine.stream(handle, thread_state().device);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (machine.failure() != cudaSuccess) return finish(machine.failure());
  if (rows.source_stride < rows.width || rows.target_stride < rows.width) {
    return finish(cudaErrorInvalidValue);
  }
  Step step;
  step.name = "a copy";
  step.seconds = seconds_for(rows.width * rows.height);
  const bool is_captured = stream->capture != nullptr;
  if (!is_captured && rows.height > 0 && !is_known(rows.source)) {
    const auto* first = static_cast<const std::byte*>(rows.source);
    auto held = std::make_shared<std::vector<std::byte>>(
        first, first + (rows.height - 1) * rows.source_stride + rows.width);
    step.work = [rows, held] {
      Rows from_held = rows;
      from_held.source = held->data();
      return from_held.copy();
    };
  } else {
    step.work = [rows] { return rows.copy(); };
  }
  add_work(*stream, std::move(step));
  if (waits || (!is_captured && !is_known(rows.target))) {
    if (is_captured) return finish(cudaErrorStreamCaptureUnsupported);
    machine.wait(lock, [&] { return machine.is_idle(*stream); });
    return finish(machine.failure());
  }
  return cudaSuccess;
}

cudaError_t fill(void* target, int value, std::size_t bytes, cudaStream_t handle) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  Stream* stream = machine.stream(handle, thread_state().device);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (machine.failure() != cudaSuccess) return finish(machine.failure());
  if (!is_known(target)) return finish(cudaErrorInvalidValue);
  add_work(*stream, {"a fill",
                     [=] {
                       std::string why = objection(target, bytes);
                       if (why.empty()) std::memset(target, value, bytes);
                       return why;
                     },
                     seconds_for(bytes), nullptr, nullptr});
  return cudaSuccess;
}

cudaError_t allocate(void** address, std::size_t bytes, bool is_pinned) {
  *address = Machine::get().memory().allocate(bytes, thread_state().device, is_pinned);
  return *address == nullptr ? finish(cudaErrorMemoryAllocation) : cudaSuccess;
}

// Waits for the devices, as CUDA does.
cudaError_t release(void* address) {
  if (address == nullptr) return cudaSuccess;
  Machine& machine = Machine::get();
  const auto gone = machine.memory().find(address);
  if (!gone) return finish(cudaErrorInvalidValue);
  auto lock = machine.lock();
  machine.wait(lock, [&] {
    for (int device = 0; device < machine.devices(); ++device) {
      if (!machine.is_device_idle(device)) return false;
    }
    return true;
  });
  Stream* own = machine.stream(nullptr, gone->device);
  machine.add(*own, {"the end of an allocation", [gone] { return Memory::damage(*gone); }, 0,
                     nullptr, nullptr});
  machine.wait(lock, [&] { return machine.is_idle(*own); });
  return machine.memory().release(address) ? cudaSuccess : finish(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return allocate(address, bytes, false);
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate(address, bytes, true);
}
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return allocate(address, bytes, true);
}
cudaError_t cudaFree(void* address) { return release(address); }
cudaError_t cudaFreeHost(void* address) { return release(address); }

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return copy({target, bytes, source, bytes, bytes, bytes > 0 ? 1U : 0U}, stream, false);
}
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind) {
  return copy({target, bytes, source, bytes, bytes, bytes > 0 ? 1U : 0U}, nullptr, true);
}
cudaError_t cudaMemcpy2DAsync(void* target, std::size_t target_stride, const void* source,
                              std::size_t source_stride, std::size_t width, std::size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  return copy({target, target_stride, source, source_stride, width, height}, stream, false);
}
cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(target, value, bytes, stream);
}
cudaError_t cudaMemset(void* target, int value, std::size_t bytes) {
  return fill(target, value, bytes, nullptr);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  const auto found = Machine::get().memory().find(address);
  // The end is not in it.
  if (!found || reinterpret_cast<std::uintptr_t>(address) >= found->end()) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    return cudaSuccess;
  }
  attributes->type = found->is_pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = found->device;
  return cudaSuccess;
}

// Handles name nothing outside of this process, and CUDA opens none of its own process.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const auto found = Machine::get().memory().find(address);
  if (!found || found->is_pinned) return finish(cudaErrorInvalidValue);
  *handle = {};
  std::memcpy(handle->reserved, &found->begin, sizeof found->begin);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t, unsigned) {
  *address = nullptr;
  return finish(cudaErrorDeviceUninitialized);
}
cudaError_t cudaIpcCloseMemHandle(void*) { return finish(cudaErrorInvalidValue); }

}  // extern "C"

}  // namespace tutti::cuda_emulator
