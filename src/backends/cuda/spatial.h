// Numbers by spatial dimension, for kernels that always have three.
#pragma once

#include <array>

#include "base/dims.h"
#include "base/status.h"

namespace tutti::cuda {

using Spatial = std::array<std::int64_t, 3>;

// The last `rank` of three; `fallback` stands in front and where `values` ends.
inline Result<Spatial> spatial(const Dims& values, std::size_t rank, std::int64_t fallback) {
  Spatial out = {fallback, fallback, fallback};
  if (rank > 3) return unimplemented(rank, " spatial dimensions; expected 1 to 3");
  for (std::size_t i = 0; i < rank && i < values.size(); ++i) out[3 - rank + i] = values[i];
  return out;
}

}  // namespace tutti::cuda
