// What windows read beyond the edge of a tensor.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/window_map.h"

namespace tutti {

// The bytes of the number of `dtype` that TransferPlan::fills are filled with: the lowest one
// (minus infinity where there is one) for WindowEdge::kLowest, zero for any other edge.
Result<std::vector<std::byte>> edge_number(WindowEdge edge, DType dtype);

}  // namespace tutti
