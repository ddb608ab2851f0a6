// What Hopper's copy engine is told of a tensor (CUDA driver: cuTensorMapEncodeTiled).
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti::cuda {

// As a kernel takes it, by value (kernels/hopper.cuh).
struct alignas(64) TensorMap {
  std::array<std::uint64_t, 16> words{};
};

struct TiledTensor {
  DType dtype = DType::kUndefined;        // of 16 bits
  std::array<std::int64_t, 4> dims{};     // elements that lie side by side first
  std::array<std::int64_t, 3> strides{};  // elements, of dims 1 to 3; multiples of 8
  std::array<std::uint32_t, 4> box{};     // what one copy brings; box[0] elements are 128 bytes
};

// Rows of a box are swizzled by 128 bytes in shared memory, zeros where they are outside. `data` is
// aligned to 16 bytes. Errors: the driver has no such function; what it refuses.
Result<TensorMap> make_tensor_map(const TiledTensor& tensor, const void* data);

}  // namespace tutti::cuda
