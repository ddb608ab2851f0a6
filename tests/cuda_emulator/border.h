// For the stand-ins of CUDA's libraries: work of theirs as a step of a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace tutti::cuda_emulator {

// `work` says what went wrong, or "". Errors: those of the stream.
cudaError_t add_library_work(cudaStream_t stream, std::string name, double seconds,
                             std::function<std::string()> work);

// Bytes from `address` to the end of the allocation that it lies in; 0: it is in no memory of a
// device.
std::size_t device_bytes_from(const void* address);

}  // namespace tutti::cuda_emulator
