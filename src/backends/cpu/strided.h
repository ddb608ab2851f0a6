// Loops over several operands of one shape, with as few and as long dimensions as possible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dims.h"

namespace tutti::cpu {

// Strides, in elements, of an operand of shape `dims` that broadcasts to `target` (right-aligned; 0
// along broadcast dimensions). Error: it does not broadcast.
Result<Dims> broadcast_strides(const Dims& dims, const Dims& target);

// Drops dimensions of size 1 and merges neighbours that every operand walks through evenly. At
// least one dimension stays. `strides[i]` belongs to operand i and is rewritten.
Dims collapse(const Dims& dims, std::vector<Dims>* strides);

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
