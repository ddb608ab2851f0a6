// Bytes that each rank of a compiled model needs.
#pragma once

#include <vector>

#include "compiler/compile.h"

namespace tutti {

// By rank. `main` and `prologue` (may be null) as `hoist` leaves them or later; sizes as in
// SizeEstimate. Activations are the largest sum of values alive at one node of either graph;
// kernels' own scratch memory and weights that kernels repack come on top.
std::vector<RankBytes> memory_by_rank(const Graph& main, const Graph* prologue, const Mesh& mesh,
                                      const SymbolMap& sizes);

// RESOURCE_EXHAUSTED with the bytes that each rank which does not fit needs; OK without a limit.
Status check_memory(const std::vector<RankBytes>& ranks, double limit);

}  // namespace tutti
