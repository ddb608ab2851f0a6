#include "backends/cuda/check.h"

#include <string_view>

namespace tutti::cuda {

Status to_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  const std::string_view text(call);
  const std::string_view name = text.substr(0, text.find('('));
  const StatusCode code =
      error == cudaErrorMemoryAllocation ? StatusCode::kResourceExhausted : StatusCode::kInternal;
  return Status(code, str_cat("cuda: ", name, ": ", cudaGetErrorString(error)));
}

}  // namespace tutti::cuda
