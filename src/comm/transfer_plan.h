// From whole sizes and splits to the regions that travel: the arithmetic of every exchange, shared
// by all backends. Terms are those of graph/layout.h, with numbers for sizes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/dims.h"
#include "comm/communicator.h"
#include "graph/window_map.h"

namespace tutti {

// The pieces are of a result of `rows` rows, and a rank holds the rows that its piece of the result
// reads: row i reads [i * stride + offset, i * stride + offset + extent). As WindowMap, in numbers.
struct PieceWindow {
  std::int64_t rows = 0;
  std::int64_t stride = 1;
  std::int64_t offset = 0;
  std::int64_t extent = 1;
  WindowEdge edge = WindowEdge::kZero;
};

// Dimension `dim` is cut into `units` equal units that each stand `replicas` times in a row; the
// ranks hold the balanced pieces of units * replicas. A rank whose piece has a unit several times
// stores it as often.
struct PieceSplit {
  int dim = 0;
  std::int64_t units = 0;
  int replicas = 1;
  std::optional<PieceWindow> window = {};  // then `units` cuts its rows; replicas is 1
};

// One tensor of an exchange. No split: every rank has (or gets) all of it.
struct TransferOperand {
  Dims dims;  // whole along the split dimensions
  std::size_t element_size = 0;
  std::optional<PieceSplit> from;  // without a window
  std::optional<PieceSplit> to;
};

struct LocalCopy {
  Region from;
  Region to;
};

// First the exchange, then the copies: both sides of a copy lie in this rank's targets. They fill
// the further copies of units that a rank holds several times; so no byte travels twice to a rank.
// `fills` are the places in this rank's targets where windows read the number of their edge.
struct TransferPlan {
  ExchangePlan exchange;
  std::vector<LocalCopy> copies;
  std::vector<Region> fills;
};

// Sizes that `rank` of `ranks` stores.
Dims piece_dims(const Dims& dims, const std::optional<PieceSplit>& split, int ranks, int rank);

// The plan of rank `self` for operands[i], buffer i on both sides. A rank that already holds a unit
// keeps it; any other comes from the first rank that holds it. Errors: units that do not divide
// their dimension, dimensions out of range.
Result<TransferPlan> make_transfer_plan(std::span<const TransferOperand> operands, int ranks,
                                        int self);

// Rows that a rank's windows reach into, from pieces along the same dimension, however many ranks
// they come from. Rows between windows (strides past the extent) do not travel.
Result<TransferPlan> halo_plan(const Dims& dims, std::size_t element_size, const PieceSplit& from,
                               const PieceSplit& to, int ranks, int self);

// By name: piece -> whole, whole -> piece (nothing travels), pieces -> pieces.
Result<TransferPlan> all_gather_plan(const Dims& dims, std::size_t element_size,
                                     const PieceSplit& from, int ranks, int self);
// The same where whole tensors are sequences of `segments` elements joined along the dimension that
// operands[i].from names, and a rank's piece is its balanced piece of each, one after the other.
// Errors: segments that do not add up to the dimension.
Result<TransferPlan> joined_gather_plan(std::span<const TransferOperand> operands,
                                        std::span<const std::int64_t> segments, int ranks,
                                        int self);
Result<TransferPlan> shard_slice_plan(const Dims& dims, std::size_t element_size,
                                      const PieceSplit& to, int ranks, int self);
Result<TransferPlan> all_to_all_plan(std::span<const TransferOperand> operands, int ranks,
                                     int self);

// Every rank has a partial sum of the whole and gets its piece from all of them: the contribution
// of rank p lands at element p * (elements of the piece) of target 0, packed. Reducing is the
// caller's.
Result<TransferPlan> reduce_scatter_plan(const Dims& dims, std::size_t element_size,
                                         const PieceSplit& to, int ranks, int self);

}  // namespace tutti
