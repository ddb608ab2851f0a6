// A convolution, or a transposed one, as numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/backend.h"

namespace tutti::cpu {

struct ConvShape {
  bool is_transposed = false;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t group = 1;
  // By spatial dimension.
  Dims in, out, kernel, strides, dilations, pads_begin, pads_end;
  bool has_bias = false;

  std::size_t rank() const { return in.size(); }
  std::int64_t extent(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

// From a Conv or ConvTranspose node with its sizes. Errors: sizes that do not fit each other.
Result<ConvShape> read_conv_shape(const KernelSpec& spec);

// Plain loops, for any type and shape; output channels of all batch elements are shared out.
Status plain_conv(const ConvShape& shape, const void* x, const void* w, const void* bias, void* y,
                  ThreadPool* pool);

}  // namespace tutti::cpu
