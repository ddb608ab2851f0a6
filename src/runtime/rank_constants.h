// The weights of one rank: whole constants of the plan and pieces of those that ranks share.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tutti {

// Used by one thread at a time.
class RankConstants {
 public:
  // `keeps_pieces`: pieces stay until the end even when nobody refers to them, for devices that
  // tell constants apart by their address in host memory.
  explicit RankConstants(bool keeps_pieces) : keeps_pieces_(keeps_pieces) {}

  // The tensor that `value`, of which sliced_constant() is not null, is on this rank. A piece that
  // is contiguous in the plan file is a view of it, any other is copied, once for all who hold it.
  // `symbols` bind the rank's coordinates. Errors: no memory.
  Result<std::shared_ptr<const Tensor>> get(const Value& value, const SymbolMap& symbols);

  // Of all that was asked for, each once.
  std::size_t bytes() const { return bytes_; }

 private:
  Result<std::shared_ptr<const Tensor>> piece_of(const Node& slice, const SymbolMap& symbols,
                                                 std::string* key);

  const bool keeps_pieces_;
  std::map<std::string, std::weak_ptr<const Tensor>> pieces_;
  std::vector<std::shared_ptr<const Tensor>> kept_;
  std::set<std::string> counted_;
  std::size_t bytes_ = 0;
};

// As Split (graph/layout.h), with numbers for sizes.
struct PieceCut {
  int dim = 0;
  std::int64_t units = 0;
  int replicas = 1;
  std::vector<std::int64_t> segments = {};
};

// The units of a dimension of `whole` that rank `rank` of `ranks` holds.
Result<Tensor> cut_piece(const Tensor& whole, const PieceCut& cut, int ranks, int rank);

}  // namespace tutti
