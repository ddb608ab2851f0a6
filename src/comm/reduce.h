// Element-wise reductions over several arrays in host memory.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace tutti {

// target[i] = sources[0][i] op sources[1][i] op ..., in that order, for i in [begin, end). f16 and
// bf16 accumulate in f32 and round once; integer sums wrap; a NaN wins over any number. `target`
// may be one of the sources. Errors: bool, string and undefined element types.
Status reduce_range(std::span<const void* const> sources, void* target, std::int64_t begin,
                    std::int64_t end, DType dtype, ReduceOp op);

}  // namespace tutti
