// What CUDA's run time keeps for each thread of the host.
#pragma once

#include <cuda_runtime_api.h>

namespace tutti::cuda_emulator {

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};

inline ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

// Every call ends here: an error stays as the thread's last one.
inline cudaError_t finish(cudaError_t error) {
  if (error != cudaSuccess) thread_state().last_error = error;
  return error;
}

}  // namespace tutti::cuda_emulator
