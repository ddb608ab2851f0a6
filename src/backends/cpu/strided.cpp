#include "backends/cpu/strided.h"

#include <algorithm>
#include <cstring>

namespace tutti::cpu {
namespace {

template <class T>
void copy_elements(const std::byte* source, std::int64_t stride, std::byte* target,
                   std::int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  if (stride == 0) {
    std::fill_n(to, count, *from);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

template <class T>
void copy_short_rows(const std::byte* source, std::int64_t row_stride, std::int64_t stride,
                     std::byte* target, std::int64_t rows, std::int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  if (stride == 0 && count == 2) {
    for (std::int64_t r = 0; r < rows; ++r) to[2 * r] = to[2 * r + 1] = from[r * row_stride];
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < count; ++i) to[r * count + i] = from[r * row_stride + i * stride];
  }
}

}  // namespace

void copy_strided(const std::byte* source, std::int64_t stride, std::byte* target,
                  std::int64_t count, std::size_t size) {
  if (stride == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * size);
    return;
  }
  switch (size) {
    case 1: return copy_elements<std::uint8_t>(source, stride, target, count);
    case 2: return copy_elements<std::uint16_t>(source, stride, target, count);
    case 4: return copy_elements<std::uint32_t>(source, stride, target, count);
    default: return copy_elements<std::uint64_t>(source, stride, target, count);
  }
}

void copy_rows(const std::byte* source, std::int64_t row_stride, std::int64_t stride,
               std::byte* target, std::int64_t rows, std::int64_t count, std::size_t size) {
  switch (size) {
    case 1: return copy_short_rows<std::uint8_t>(source, row_stride, stride, target, rows, count);
    case 2: return copy_short_rows<std::uint16_t>(source, row_stride, stride, target, rows, count);
    case 4: return copy_short_rows<std::uint32_t>(source, row_stride, stride, target, rows, count);
    default: return copy_short_rows<std::uint64_t>(source, row_stride, stride, target, rows, count);
  }
}

}  // namespace tutti::cpu
