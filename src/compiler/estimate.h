// How long a distributed model takes, by what takes the time.
#pragma once

#include <vector>

#include "compiler/compile.h"

namespace tutti {

// Of the busiest rank in each term, in seconds. Nothing overlaps: a bound from above where devices
// compute while they exchange, and the same for all candidates.
struct TimeEstimate {
  double compute = 0;  // floating-point operations
  double weights = 0;  // reading weights once
  double link = 0;     // bytes that it sends
  double latency = 0;  // of each exchange
  int exchanges = 0;

  double total() const { return compute + weights + link + latency; }
};

// One call of `main`; a prologue runs once for many calls and is left out.
TimeEstimate estimate_time(const Graph& main, const std::vector<RankBytes>& memory,
                           const Mesh& mesh, const CostRates& rates, const SymbolMap& sizes);

}  // namespace tutti
