#include <cstring>

#include "backends/cuda/memory.h"

namespace tutti::cuda {
namespace {

// Bytes from `data` to the end of the allocation that it lies in. Only the driver's own interface
// knows: cuMemGetAddressRange.
Result<std::size_t> bytes_from(const std::byte* data) {
  using AddressRange = int (*)(unsigned long long*, std::size_t*, unsigned long long);
  constexpr unsigned kSince = 12000;  // of its present form, and before
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TUTTI_CUDA(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, kSince,
                                              cudaEnableDefault, &found));
  if (entry == nullptr) return internal_error("cuda: the driver has no cuMemGetAddressRange");
  unsigned long long base = 0;
  std::size_t size = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const int error = reinterpret_cast<AddressRange>(entry)(&base, &size, address);
  if (error != 0) return internal_error("cuda: cuMemGetAddressRange: error ", error);
  return static_cast<std::size_t>(base + size - address);
}

}  // namespace

Result<std::shared_ptr<std::byte>> open_shared(int device, std::span<const std::byte> handle,
                                               std::size_t bytes) {
  cudaIpcMemHandle_t words;
  if (handle.size() != sizeof words) {
    return invalid_argument("the CUDA IPC handle has ", handle.size(), " bytes, expected ",
                            sizeof words);
  }
  std::memcpy(&words, handle.data(), sizeof words);
  TUTTI_RETURN_IF_ERROR(activate(device));
  void* data = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&data, words, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return invalid_argument("the CUDA IPC handle opens no memory of device ", device, ": ",
                            cudaGetErrorString(error));
  }
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(data), [device](std::byte* opened) {
    (void)activate(device);
    (void)cudaIpcCloseMemHandle(opened);
  });
  TUTTI_ASSIGN_OR_RETURN(const MemoryFacts facts, facts_of(memory.get()));
  if (!facts.is_device || facts.device != device) {
    return invalid_argument("the CUDA IPC handle is of device ", facts.device, ", expected ",
                            device);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::size_t available, bytes_from(memory.get()));
  if (bytes > available) {
    return invalid_argument("the memory behind the CUDA IPC handle has ", available,
                            " bytes, expected at least ", bytes);
  }
  return memory;
}

}  // namespace tutti::cuda
