#include "comm/reduce.h"

#include <algorithm>
#include <type_traits>

#include "base/dispatch.h"

namespace tutti {
namespace {

// Elements that stay in the first-level cache while the sources pass by.
constexpr std::int64_t kBlock = 512;

template <class C>
C combine(C a, C b, ReduceOp op) {
  if (op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<C>) {
      using U = std::make_unsigned_t<C>;
      return static_cast<C>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

template <class T>
void reduce_typed(std::span<const void* const> sources, T* target, std::int64_t begin,
                  std::int64_t end, ReduceOp op) {
  using C = ComputeType<T>;
  C block[kBlock];
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const T* first = static_cast<const T*>(sources[0]) + at;
    for (std::int64_t i = 0; i < count; ++i) block[i] = static_cast<C>(first[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* next = static_cast<const T*>(sources[s]) + at;
      for (std::int64_t i = 0; i < count; ++i) {
        block[i] = combine(block[i], static_cast<C>(next[i]), op);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) target[at + i] = T(block[i]);
  }
}

}  // namespace

Status reduce_range(std::span<const void* const> sources, void* target, std::int64_t begin,
                    std::int64_t end, DType dtype, ReduceOp op) {
  return dispatch_dtype(dtype, [&](auto tag) -> Status {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      return invalid_argument("a reduction takes numbers, not bool");
    } else {
      reduce_typed<T>(sources, static_cast<T*>(target), begin, end, op);
      return Status();
    }
  });
}

}  // namespace tutti
