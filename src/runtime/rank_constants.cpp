#include "runtime/rank_constants.h"

#include <cstring>

#include "graph/rank_constant.h"

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;

// Neighbouring units of the dimension.
struct Run {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// What a rank holds, in the order of its piece. Units that stand several times are runs of their
// own.
std::vector<Run> runs_of(const PieceCut& cut, int ranks, int rank) {
  std::vector<Run> runs;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    if (count > 0) runs.push_back({first, count});
  };
  std::int64_t start = 0;
  for (const std::int64_t segment : cut.segments) {
    add(start + part_offset(segment, ranks, rank), part_size(segment, ranks, rank));
    start += segment;
  }
  if (!cut.segments.empty()) return runs;
  const std::int64_t first = part_offset(cut.units * cut.replicas, ranks, rank);
  const std::int64_t count = part_size(cut.units * cut.replicas, ranks, rank);
  if (cut.replicas == 1) {
    add(first, count);
    return runs;
  }
  for (std::int64_t i = first; i < first + count; ++i) add(i / cut.replicas, 1);
  return runs;
}

}  // namespace

Result<Tensor> cut_piece(const Tensor& whole, const PieceCut& cut, int ranks, int rank) {
  const auto at = static_cast<std::size_t>(cut.dim);
  std::int64_t outer = 1;
  auto inner = static_cast<std::int64_t>(dtype_size(whole.dtype()));
  for (std::size_t d = 0; d < whole.rank(); ++d) {
    if (d < at) outer *= whole.dims()[d];
    if (d > at) inner *= whole.dims()[d];
  }
  const std::int64_t per_unit = cut.units == 0 ? 0 : whole.dims()[at] / cut.units;
  const std::int64_t unit = per_unit * inner;
  const std::vector<Run> runs = runs_of(cut, ranks, rank);
  std::int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  Dims dims = whole.dims();
  dims[at] = count * per_unit;
  if (outer == 1 && runs.size() == 1) {
    const std::byte* data = whole.data() + runs[0].first * unit;
    if (reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0) {
      return Tensor::view(whole.dtype(), std::move(dims), data, std::make_shared<Tensor>(whole));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor piece, Tensor::allocate(whole.dtype(), std::move(dims)));
  std::byte* target = piece.mutable_data();
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::byte* row = whole.data() + o * whole.dims()[at] * inner;
    for (const Run& run : runs) {
      const auto bytes = static_cast<std::size_t>(run.count * unit);
      if (bytes > 0) std::memcpy(target, row + run.first * unit, bytes);
      target += bytes;
    }
  }
  return piece;
}

Result<std::shared_ptr<const Tensor>> RankConstants::piece_of(const Node& slice,
                                                              const SymbolMap& symbols,
                                                              std::string* key) {
  const Value& source = *slice.input(0);
  std::shared_ptr<const Tensor> whole(&source.constant(), [](const Tensor*) {});
  if (source.is_constant()) {
    *key = str_cat(reinterpret_cast<std::uintptr_t>(whole->data()), whole->dims());
  } else {
    TUTTI_ASSIGN_OR_RETURN(whole, piece_of(*source.producer(), symbols, key));
  }
  PieceCut cut;
  TUTTI_ASSIGN_OR_RETURN(cut.units, slice.attr_dims("units").at(0).evaluate(symbols));
  TUTTI_ASSIGN_OR_RETURN(cut.segments, evaluate(slice.attr_dims("segments"), symbols));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t rank,
                         Dim::symbol("rank." + slice.attr_string("axis")).evaluate(symbols));
  cut.dim = static_cast<int>(slice.attr_int("dim"));
  cut.replicas = static_cast<int>(slice.attr_int("replicas", 1));
  const auto ranks = static_cast<int>(slice.attr_int("ranks"));
  *key += str_cat("/", cut.dim, ":", cut.units, "x", cut.replicas, cut.segments, " ", rank, " of ",
                  ranks);
  std::weak_ptr<const Tensor>& known = pieces_[*key];
  if (auto piece = known.lock()) return piece;
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, cut_piece(*whole, cut, ranks, static_cast<int>(rank)));
  auto piece = std::make_shared<const Tensor>(std::move(tensor));
  known = piece;
  if (keeps_pieces_) kept_.push_back(piece);
  return piece;
}

Result<std::shared_ptr<const Tensor>> RankConstants::get(const Value& value,
                                                         const SymbolMap& symbols) {
  std::string key;
  std::shared_ptr<const Tensor> tensor;
  if (value.is_constant()) {
    tensor = std::shared_ptr<const Tensor>(&value.constant(), [](const Tensor*) {});
    key = str_cat(reinterpret_cast<std::uintptr_t>(tensor->data()), tensor->dims());
  } else {
    TUTTI_ASSIGN_OR_RETURN(tensor, piece_of(*value.producer(), symbols, &key));
  }
  if (counted_.insert(std::move(key)).second) bytes_ += tensor->byte_size();
  return tensor;
}

}  // namespace tutti
