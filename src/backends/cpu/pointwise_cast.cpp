// Cast between all element types.
#include <algorithm>
#include <limits>

#include "backends/cpu/convert.h"
#include "backends/cpu/pointwise_loops.h"

namespace tutti::cpu {
namespace {

// Truncates towards zero. What does not fit (ONNX leaves it open) saturates at 64 bits and then
// keeps the low bits, so that small negative numbers become what unsigned arithmetic makes of them.
template <class T, class R>
TUTTI_INLINE inline R float_to_integer(T x) {
  if constexpr (std::is_same_v<R, std::int32_t>) {
    const T low = x < T(-2147483648.0) ? T(-2147483648.0) : x;
    const T high = low > T(2147483520.0) ? T(2147483520.0) : low;
    return x != x ? 0 : static_cast<std::int32_t>(high);
  } else {
    constexpr T kLimit = T(9223372036854775808.0);  // 2^63
    if (x != x) return 0;
    if constexpr (std::is_same_v<R, std::uint64_t>) {
      if (x >= kLimit) {
        return x >= kLimit * T(2) ? std::numeric_limits<R>::max() : static_cast<std::uint64_t>(x);
      }
    }
    if (x >= kLimit) return static_cast<R>(std::numeric_limits<std::int64_t>::max());
    if (x < -kLimit) return static_cast<R>(std::numeric_limits<std::int64_t>::min());
    return static_cast<R>(static_cast<std::int64_t>(x));
  }
}

template <class T, class R>
void cast_loop(const LoopArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  R* out = static_cast<R*>(args.out);
  const std::int64_t count = args.count;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R>) {
      out[i] = float_to_integer<T, R>(a[i]);
    } else {
      out[i] = static_cast<R>(a[i]);
    }
  }
}

template <class T>
void cast_to_bool(const LoopArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  std::uint8_t* out = static_cast<std::uint8_t*>(args.out);
  for (std::int64_t i = 0; i < args.count; ++i) out[i] = a[i] != T(0) ? 1 : 0;
}

// To float with the precision of a 16-bit float, in stretches that stay in the first-level cache.
template <class T, class Narrow>
void cast_to_narrow(const LoopArgs& args) {
  constexpr std::int64_t kStretch = 256;
  const T* a = static_cast<const T*>(args.in[0]);
  float* out = static_cast<float*>(args.out);
  float wide[kStretch];
  Narrow narrow[kStretch];
  for (std::int64_t i = 0; i < args.count; i += kStretch) {
    const std::int64_t count = std::min(kStretch, args.count - i);
    const float* source = wide;
    if constexpr (std::is_same_v<T, float>) {
      source = a + i;
    } else {
      for (std::int64_t j = 0; j < count; ++j) wide[j] = static_cast<float>(a[i + j]);
    }
    convert_from_float(source, narrow, count);
    convert_to_float(narrow, out + i, count);
  }
}

template <class T>
PointwiseLoop find(DType to) {
  switch (to) {
    case DType::kFloat16: return cast_to_narrow<T, Half>;
    case DType::kBFloat16: return cast_to_narrow<T, BFloat16>;
    case DType::kBool: return cast_to_bool<T>;
    default: break;
  }
  PointwiseLoop loop = nullptr;
  with_number_type(to, [&](auto tag) { loop = cast_loop<T, typename decltype(tag)::type>; });
  return loop;
}

}  // namespace

PointwiseOp find_cast_loop(DType from, DType to) {
  PointwiseOp op;
  op.cost = 2;
  if (from == DType::kBool) {
    op.loop = find<std::uint8_t>(to);
    return op;
  }
  with_number_type(compute_dtype(from),
                   [&](auto tag) { op.loop = find<typename decltype(tag)::type>(to); });
  return op;
}

}  // namespace tutti::cpu
