#include "runtime/rank_constants.h"

#include <cstring>

#include "graph/rank_constant.h"

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

Result<Tensor> cut_piece(const Tensor& whole, int dim, std::int64_t units, int replicas, int ranks,
                         int rank) {
  const auto at = static_cast<std::size_t>(dim);
  std::int64_t outer = 1;
  auto inner = static_cast<std::int64_t>(dtype_size(whole.dtype()));
  for (std::size_t d = 0; d < whole.rank(); ++d) {
    if (d < at) outer *= whole.dims()[d];
    if (d > at) inner *= whole.dims()[d];
  }
  const std::int64_t row = whole.dims()[at] * inner;
  const std::int64_t unit = units == 0 ? 0 : row / units;
  const std::int64_t first = part_offset(units * replicas, ranks, rank);
  const std::int64_t count = part_size(units * replicas, ranks, rank);
  Dims dims = whole.dims();
  dims[at] = inner == 0 ? 0 : count * unit / inner;
  // One run of bytes: no copies of a unit, nothing outside the dimension.
  const std::int64_t offset = first / replicas * unit;
  const bool has_copies =
      count > 0 && (first + count - 1) / replicas - first / replicas + 1 != count;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(whole.data() + offset) % kAlignment == 0;
  if (outer == 1 && !has_copies && is_aligned && count > 0) {
    return Tensor::view(whole.dtype(), std::move(dims), whole.data() + offset,
                        std::make_shared<Tensor>(whole));
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor piece, Tensor::allocate(whole.dtype(), std::move(dims)));
  std::byte* target = piece.mutable_data();
  const auto bytes = static_cast<std::size_t>(unit);
  for (std::int64_t o = 0; o < outer && bytes > 0; ++o) {
    for (std::int64_t i = first; i < first + count; ++i, target += bytes) {
      std::memcpy(target, whole.data() + o * row + i / replicas * unit, bytes);
    }
  }
  return piece;
}

Result<std::shared_ptr<const Tensor>> RankConstants::cut(const Node& slice,
                                                         const SymbolMap& symbols,
                                                         std::string* key) {
  const Value& source = *slice.input(0);
  std::shared_ptr<const Tensor> whole(&source.constant(), [](const Tensor*) {});
  if (source.is_constant()) {
    *key = str_cat(reinterpret_cast<std::uintptr_t>(whole->data()), whole->dims());
  } else {
    TUTTI_ASSIGN_OR_RETURN(whole, cut(*source.producer(), symbols, key));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t units,
                         slice.attr_dims("units").at(0).evaluate(symbols));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t rank,
                         Dim::symbol("rank." + slice.attr_string("axis")).evaluate(symbols));
  const auto dim = static_cast<int>(slice.attr_int("dim"));
  const auto replicas = static_cast<int>(slice.attr_int("replicas", 1));
  const auto ranks = static_cast<int>(slice.attr_int("ranks"));
  *key += str_cat("/", dim, ":", units, "x", replicas, " ", rank, " of ", ranks);
  std::weak_ptr<const Tensor>& known = pieces_[*key];
  if (auto piece = known.lock()) return piece;
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor,
                         cut_piece(*whole, dim, units, replicas, ranks, static_cast<int>(rank)));
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
    TUTTI_ASSIGN_OR_RETURN(tensor, cut(*value.producer(), symbols, &key));
  }
  if (counted_.insert(std::move(key)).second) bytes_ += tensor->byte_size();
  return tensor;
}

}  // namespace tutti
