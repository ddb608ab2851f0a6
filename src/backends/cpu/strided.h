// Copies and walks of elements that stand apart.
#pragma once

#include <cstdint>

#include "base/dims.h"

namespace tutti::cpu {

// Row-major coordinates of linear position `index`.
inline void unravel(std::int64_t index, const Dims& dims, std::int64_t* coordinates) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    coordinates[d] = index % dims[d];
    index /= dims[d];
  }
}

// Copies `count` elements of `size` bytes (1, 2, 4 or 8) that stand `stride` elements apart (0: the
// same one again and again) to a dense target.
void copy_strided(const std::byte* source, std::int64_t stride, std::byte* target,
                  std::int64_t count, std::size_t size);

// The same for `rows` rows of `count` elements each: short rows in one call.
void copy_rows(const std::byte* source, std::int64_t row_stride, std::int64_t stride,
               std::byte* target, std::int64_t rows, std::int64_t count, std::size_t size);

}  // namespace tutti::cpu
