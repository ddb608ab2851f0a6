#include <functional>

#include "backends/cpu/conv_shape.h"
#include "base/dispatch.h"

namespace tutti::cpu {
namespace {

// The spatial loops always count three dimensions; missing ones have size 1.
struct Space {
  explicit Space(const ConvShape& s) {
    for (std::size_t i = 0; i < s.rank(); ++i) {
      const std::size_t d = 3 - s.rank() + i;
      in[d] = s.in[i];
      out[d] = s.out[i];
      kernel[d] = s.kernel[i];
      stride[d] = s.strides[i];
      dilation[d] = s.dilations[i];
      pad[d] = s.pads_begin[i];
    }
    in_size = in[0] * in[1] * in[2];
    out_size = out[0] * out[1] * out[2];
    kernel_size = kernel[0] * kernel[1] * kernel[2];
  }

  std::int64_t in[3] = {1, 1, 1};
  std::int64_t out[3] = {1, 1, 1};
  std::int64_t kernel[3] = {1, 1, 1};
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
  std::int64_t pad[3] = {0, 0, 0};
  std::int64_t in_size, out_size, kernel_size;

  // The input position along d that kernel position k brings to output position o; -1 for none.
  std::int64_t source(bool is_transposed, std::size_t d, std::int64_t o, std::int64_t k) const {
    std::int64_t at = 0;
    if (is_transposed) {
      at = o + pad[d] - k * dilation[d];
      if (at < 0 || at % stride[d] != 0) return -1;
      at /= stride[d];
    } else {
      at = o * stride[d] - pad[d] + k * dilation[d];
    }
    return at >= 0 && at < in[d] ? at : -1;
  }
};

template <class T>
void conv_channel(const ConvShape& s, const Space& p, std::int64_t item, const T* x, const T* w,
                  const T* bias, T* y) {
  using C = ComputeType<T>;
  const std::int64_t channel = item % s.out_channels;
  const std::int64_t out_group = s.out_channels / s.group;
  const std::int64_t in_group = s.in_channels / s.group;
  const std::int64_t first_in = channel / out_group * in_group;
  x += (item / s.out_channels * s.in_channels + first_in) * p.in_size;
  // Weights are [o, c / group, k..], transposed [c, o / group, k..].
  const std::int64_t w_step = (s.is_transposed ? out_group : std::int64_t{1}) * p.kernel_size;
  w += s.is_transposed ? (first_in * out_group + channel % out_group) * p.kernel_size
                       : channel * in_group * p.kernel_size;
  T* out = y + item * p.out_size;
  for (std::int64_t o = 0; o < p.out_size; ++o) {
    const std::int64_t at[3] = {o / p.out[2] / p.out[1], o / p.out[2] % p.out[1], o % p.out[2]};
    C sum = bias == nullptr ? C(0) : static_cast<C>(bias[channel]);
    for (std::int64_t k = 0; k < p.kernel_size; ++k) {
      const std::int64_t z = p.source(s.is_transposed, 0, at[0], k / p.kernel[2] / p.kernel[1]);
      const std::int64_t r = p.source(s.is_transposed, 1, at[1], k / p.kernel[2] % p.kernel[1]);
      const std::int64_t q = p.source(s.is_transposed, 2, at[2], k % p.kernel[2]);
      if (z < 0 || r < 0 || q < 0) continue;
      const T* from = x + (z * p.in[1] + r) * p.in[2] + q;
      for (std::int64_t c = 0; c < in_group; ++c) {
        sum += static_cast<C>(from[c * p.in_size]) * static_cast<C>(w[c * w_step + k]);
      }
    }
    out[o] = static_cast<T>(sum);
  }
}

}  // namespace

Status plain_conv(const ConvShape& shape, const void* x, const void* w, const void* bias, void* y,
                  ThreadPool* pool) {
  return dispatch_dtype(shape.dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<ComputeType<T>> || std::is_same_v<T, std::int32_t>) {
      const Space space(shape);
      const auto body = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
        for (std::int64_t item = begin; item < end; ++item) {
          conv_channel<T>(shape, space, item, static_cast<const T*>(x), static_cast<const T*>(w),
                          static_cast<const T*>(bias), static_cast<T*>(y));
        }
      };
      pool->parallel_for(shape.batch * shape.out_channels, 1, std::ref(body));
      return {};
    } else {
      return invalid_argument("no convolution of ", dtype_name(shape.dtype));
    }
  });
}

}  // namespace tutti::cpu
