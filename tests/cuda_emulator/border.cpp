#include "border.h"

#include "capture.h"
#include "thread_state.h"

namespace tutti::cuda_emulator {

cudaError_t add_library_work(cudaStream_t handle, std::string name, double seconds,
                             std::function<std::string()> work) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  Stream* stream = machine.stream(handle, thread_state().device);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (machine.failure() != cudaSuccess) return machine.failure();
  add_work(*stream, {std::move(name), std::move(work), seconds, nullptr, nullptr});
  return cudaSuccess;
}

std::size_t device_bytes_from(const void* address) {
  const auto found = Machine::get().memory().find(address);
  if (!found || found->is_pinned) return 0;
  return static_cast<std::size_t>(found->end() - reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace tutti::cuda_emulator
