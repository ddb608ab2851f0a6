#include "runtime/rank_constants.h"

#include "graph/rank_constant.h"

namespace tutti {

Result<RankConstants::Found> RankConstants::piece_of(const Node& slice, const SymbolMap& symbols) {
  TUTTI_ASSIGN_OR_RETURN(Found found, find(*slice.input(0), symbols));
  TUTTI_ASSIGN_OR_RETURN(const RankCut cut, cut_of(slice, symbols));
  found.key += str_cat("/", cut.cut.dim, ":", cut.cut.units, "x", cut.cut.replicas,
                       cut.cut.segments, cut.cut.grains, " ", cut.rank, " of ", cut.ranks);
  std::weak_ptr<const Tensor>& known = pieces_[found.key];
  if (auto piece = known.lock()) return Found{std::move(piece), std::move(found.key)};
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, cut_piece(*found.tensor, cut.cut, cut.ranks, cut.rank));
  found.tensor = std::make_shared<const Tensor>(std::move(tensor));
  known = found.tensor;
  return found;
}

Result<RankConstants::Found> RankConstants::find(const Value& value, const SymbolMap& symbols) {
  if (!value.is_constant()) return piece_of(*value.producer(), symbols);
  const Tensor& whole = value.constant();
  return Found{std::shared_ptr<const Tensor>(&whole, [](const Tensor*) {}),
               str_cat(reinterpret_cast<std::uintptr_t>(whole.data()), whole.dims())};
}

Result<std::shared_ptr<const Tensor>> RankConstants::get(const Value& value,
                                                         const SymbolMap& symbols) {
  TUTTI_ASSIGN_OR_RETURN(Found found, find(value, symbols));
  if (counted_.insert(std::move(found.key)).second) bytes_ += found.tensor->byte_size();
  return std::move(found.tensor);
}

Result<const void*> RankConstants::place(const Value& value, const SymbolMap& symbols,
                                         RankDevice& device) {
  TUTTI_ASSIGN_OR_RETURN(const Found found, find(value, symbols));
  if (device.is_host_memory()) return device.place_constant(*found.tensor);
  const void*& place = places_[found.key];
  if (place == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(place, device.place_constant(*found.tensor));
  }
  return place;
}

}  // namespace tutti
