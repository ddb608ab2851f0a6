// CUDA's error codes as Status.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"

namespace tutti::cuda {

// RESOURCE_EXHAUSTED when memory is out, INTERNAL otherwise: "cuda: cudaMalloc: out of memory".
Status to_status(cudaError_t error, const char* call);

}  // namespace tutti::cuda

#define TUTTI_CUDA(call) TUTTI_RETURN_IF_ERROR(::tutti::cuda::to_status((call), #call))
