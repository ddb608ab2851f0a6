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

Result<Dims> broadcast_strides(const Dims& dims, const Dims& target) {
  if (dims.size() > target.size()) {
    return invalid_argument("shape ", dims, " does not broadcast to ", target);
  }
  const Dims dense = contiguous_strides(dims);
  const std::size_t shift = target.size() - dims.size();
  Dims strides(target.size(), 0);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == target[d + shift]) {
      strides[d + shift] = dims[d] == 1 ? 0 : dense[d];
    } else if (dims[d] != 1) {
      return invalid_argument("shape ", dims, " does not broadcast to ", target);
    }
  }
  return strides;
}

Dims collapse(const Dims& dims, std::vector<Dims>* strides) {
  Dims out;
  std::vector<Dims> merged(strides->size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool merges = !out.empty();
    for (std::size_t i = 0; merges && i < merged.size(); ++i) {
      merges = merged[i].back() == (*strides)[i][d] * dims[d];
    }
    if (merges) {
      out.back() *= dims[d];
    } else {
      out.push_back(dims[d]);
    }
    for (std::size_t i = 0; i < merged.size(); ++i) {
      if (merges) {
        merged[i].back() = (*strides)[i][d];
      } else {
        merged[i].push_back((*strides)[i][d]);
      }
    }
  }
  if (out.empty()) {
    out.push_back(1);
    for (Dims& operand : merged) operand.push_back(0);
  }
  *strides = std::move(merged);
  return out;
}

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
