#include "backends/cuda/tensor_map.h"

#include <cuda.h>

#include <cstring>

#include "backends/cuda/check.h"

namespace tutti::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Result<Encode> find_encode() {
  constexpr unsigned kSince = 12000;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TUTTI_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kSince,
                                              cudaEnableDefault, &found));
  if (entry == nullptr) return unimplemented("cuda: the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(entry);
}

}  // namespace

Result<TensorMap> make_tensor_map(const TiledTensor& tensor, const void* data) {
  static const Result<Encode> encode = find_encode();
  if (!encode.ok()) return encode.status();
  cuuint64_t dims[4];
  cuuint64_t strides[3];  // bytes
  for (std::size_t i = 0; i < 4; ++i) dims[i] = static_cast<cuuint64_t>(tensor.dims[i]);
  for (std::size_t i = 0; i < 3; ++i) strides[i] = static_cast<cuuint64_t>(tensor.strides[i]) * 2;
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap made;
  const CUresult error =
      (*encode)(&made,
                tensor.dtype == DType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                4, const_cast<void*>(data), dims, strides, tensor.box.data(), steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS) {
    return internal_error("cuda: cuTensorMapEncodeTiled: error ", static_cast<int>(error));
  }
  TensorMap map;
  static_assert(sizeof map == sizeof made);
  std::memcpy(map.words.data(), &made, sizeof made);
  return map;
}

}  // namespace tutti::cuda
