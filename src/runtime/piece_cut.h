// Which part of a tensor one rank holds: what a ShardSlice node cuts out.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tutti {

// As Split (graph/layout.h), with numbers for sizes.
struct PieceCut {
  int dim = 0;
  std::int64_t units = 0;
  int replicas = 1;
  std::vector<std::int64_t> segments = {};
  std::vector<std::int64_t> grains = {};
};

// Neighbouring units of the dimension.
struct PieceRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A cut and whose piece it is.
struct RankCut {
  PieceCut cut;
  int ranks = 1;
  int rank = 0;
};

// What the node says, with its sizes and the rank's coordinate bound.
Result<RankCut> cut_of(const Node& shard_slice, const SymbolMap& symbols);

// What rank `rank` of `ranks` holds, in the order of its piece. Units that stand several times are
// runs of their own.
std::vector<PieceRun> piece_runs(const PieceCut& cut, int ranks, int rank);

// The units of a dimension of `whole` that rank `rank` of `ranks` holds: a view where they lie side
// by side and aligned, otherwise a copy.
Result<Tensor> cut_piece(const Tensor& whole, const PieceCut& cut, int ranks, int rank);

// A piece as rows of the whole, in bytes.
struct PieceRows {
  std::size_t target_offset = 0;
  std::size_t target_stride = 0;
  std::size_t source_offset = 0;
  std::size_t source_stride = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};
std::vector<PieceRows> piece_rows(const TensorDesc& whole, const PieceCut& cut, int ranks,
                                  int rank);

}  // namespace tutti
