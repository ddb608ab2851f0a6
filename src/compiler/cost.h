// Floating-point operations and bytes, symbolic and in numbers.
#pragma once

#include <map>

#include "compiler/compile.h"

namespace tutti {

// Symbolic costs of one node, at the shapes that it has (whole or local).
Dim node_flops(const Node& node);
// Bytes that a rank sends to other ranks in one exchange of an SPMD graph; 0 for other nodes.
Dim exchange_sent_bytes(const Node& node);

// `units` units stand `replicas` times in a row and are shared out over `ranks` ranks as in Split:
// how many different ones the ranks other than `rank` hold, counted once for each rank. What
// travels to a rank travels once, however often the rank stores it.
Dim units_held_elsewhere(const Dim& units, std::int64_t replicas, std::int64_t ranks,
                         const Dim& rank);

// The rows of its piece (of `size` rows in `from_units` units) that a rank sends to the others
// along an axis, each of which needs what its windows read; `units` cuts the windows' rows.
Dim halo_sent_rows(const Dim& size, const Dim& from_units, const SplitWindow& window,
                   const Dim& units, std::int64_t ranks, const Dim& rank);

// The node multiplies, convolves, normalises or attends: worth keeping the result of.
bool is_real_work(const Node& node);

// Numbers for Dims: symbols from `typical`, those that are missing count as 32, rank coordinates
// that are missing as 0 (the first rank, which holds the largest pieces).
class SizeEstimate {
 public:
  explicit SizeEstimate(SymbolMap typical) : typical_(std::move(typical)) {}
  double operator()(const Dim& dim) const;
  // The mean over the coordinates of one mesh axis.
  double mean_over_ranks(const Dim& dim, const Mesh& mesh, int axis) const;
  const SymbolMap& symbols() const { return typical_; }

 private:
  SymbolMap typical_;
};

// FLOPs of a graph by operator type, in numbers, for one rank of the mesh.
std::map<std::string, double> flops_by_type(const Graph& graph, const Mesh& mesh, int rank,
                                            const SizeEstimate& sizes);

}  // namespace tutti
