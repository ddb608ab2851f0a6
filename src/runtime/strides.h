// Strides of operands that are walked together.
#pragma once

#include <vector>

#include "base/dims.h"

namespace tutti {

// Strides, in elements, of an operand of shape `dims` that broadcasts to `target` (right-aligned; 0
// along broadcast dimensions). Error: it does not broadcast.
Result<Dims> broadcast_strides(const Dims& dims, const Dims& target);

// Drops dimensions of size 1 and merges neighbours that every operand walks through evenly. At
// least one dimension stays. `strides[i]` belongs to operand i and is rewritten.
Dims collapse(const Dims& dims, std::vector<Dims>* strides);

}  // namespace tutti
