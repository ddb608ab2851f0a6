#include "comm/transfer_plan.h"

#include <algorithm>
#include <map>

#include "graph/dim.h"

namespace tutti {
namespace {

// Units [begin, end) of a split dimension.
struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Contiguous elements of one dimension: where they are in the whole and in a rank's piece.
struct Span {
  std::int64_t global = 0;
  std::int64_t local = 0;
  std::int64_t length = 0;
};

// The rows that one rank's windows reach into.
class WindowRows {
 public:
  WindowRows(const PieceSplit& split, std::int64_t size, int ranks, int rank) {
    const PieceWindow& w = *split.window;
    const std::int64_t unit = split.units == 0 ? 0 : w.rows / split.units;
    const std::int64_t count = part_size(split.units, ranks, rank) * unit;
    local_size_ = count * w.stride + std::max<std::int64_t>(w.extent - w.stride, 0);
    if (count == 0) return;  // nothing is read
    const std::int64_t begin = part_offset(split.units, ranks, rank) * unit * w.stride + w.offset;
    const std::int64_t end = (count - 1) * w.stride + w.extent;
    std::map<std::int64_t, std::int64_t> first_place;  // of a row, in the piece
    for (std::int64_t at = 0; at < end; ++at) {
      if (w.extent < w.stride && at % w.stride >= w.extent) continue;
      const std::int64_t row = row_at(w.edge, begin + at, size);
      if (row < 0) {
        append({0, at, 1}, &fills_);
        continue;
      }
      const auto [it, is_new] = first_place.emplace(row, at);
      append({is_new ? row : it->second, at, 1}, is_new ? &rows_ : &repeats_);
    }
  }

  std::int64_t local_size() const { return local_size_; }
  // Global: rows of the operand, each once.
  const std::vector<Span>& rows() const { return rows_; }
  // Global: the place in this piece that has the same row.
  const std::vector<Span>& repeats() const { return repeats_; }
  const std::vector<Span>& fills() const { return fills_; }

 private:
  void append(const Span& span, std::vector<Span>* spans) const {
    if (!spans->empty()) {
      Span& last = spans->back();
      const bool goes_on = span.local == last.local + last.length;
      if (goes_on && (spans == &fills_ || span.global == last.global + last.length)) {
        ++last.length;
        return;
      }
    }
    spans->push_back(span);
  }

  std::int64_t local_size_ = 0;
  std::vector<Span> rows_;
  std::vector<Span> repeats_;
  std::vector<Span> fills_;
};

// One rank's view of a split (or of the whole, when there is none).
class Piece {
 public:
  Piece(const Dims& dims, const std::optional<PieceSplit>& split, int ranks, int rank) {
    if (!split) return;
    const std::int64_t size = dims[static_cast<std::size_t>(split->dim)];
    replicas_ = split->replicas;
    unit_size_ = split->units == 0 ? 0 : size / split->units;
    const std::int64_t copies = split->units * replicas_;
    first_copy_ = part_offset(copies, ranks, rank);
    end_copy_ = first_copy_ + part_size(copies, ranks, rank);
  }

  std::int64_t local_size() const { return (end_copy_ - first_copy_) * unit_size_; }

  UnitRange units() const {
    if (first_copy_ == end_copy_) return {};
    return {first_copy_ / replicas_, (end_copy_ + replicas_ - 1) / replicas_};
  }
  // Units whose first copy of all is here.
  UnitRange first_held() const {
    if (first_copy_ == end_copy_) return {};
    return {(first_copy_ + replicas_ - 1) / replicas_, units().end};
  }

  // Position of a held unit's first copy in this piece.
  std::int64_t local_of(std::int64_t unit) const {
    return (std::max(unit * replicas_, first_copy_) - first_copy_) * unit_size_;
  }
  // How often the piece holds a unit.
  std::int64_t copies_of(std::int64_t unit) const {
    return std::min((unit + 1) * replicas_, end_copy_) - std::max(unit * replicas_, first_copy_);
  }
  std::int64_t unit_size() const { return unit_size_; }

  void append_spans(UnitRange range, std::vector<Span>* spans) const {
    if (range.begin >= range.end || unit_size_ == 0) return;
    if (replicas_ == 1) {
      spans->push_back({range.begin * unit_size_, local_of(range.begin),
                        (range.end - range.begin) * unit_size_});
      return;
    }
    for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
      spans->push_back({unit * unit_size_, local_of(unit), unit_size_});
    }
  }

 private:
  std::int64_t replicas_ = 1;
  std::int64_t unit_size_ = 0;
  std::int64_t first_copy_ = 0;
  std::int64_t end_copy_ = 0;
};

Status check_window(const PieceSplit& split) {
  const PieceWindow& w = *split.window;
  const bool divides = split.units > 0 ? w.rows % split.units == 0 : w.rows == 0;
  if (w.rows >= 0 && w.stride >= 1 && w.extent >= 1 && split.replicas == 1 && divides) return {};
  return invalid_argument("windows of ", w.rows, " rows, stride ", w.stride, " and extent ",
                          w.extent, " cannot be cut into ", split.units, " equal units with ",
                          split.replicas, " replicas");
}

Status check_split(const Dims& dims, const std::optional<PieceSplit>& split) {
  if (!split) return {};
  if (split->dim < 0 || static_cast<std::size_t>(split->dim) >= dims.size()) {
    return invalid_argument("split of dimension ", split->dim, " of a tensor of rank ",
                            dims.size());
  }
  if (split->window) return check_window(*split);
  const std::int64_t size = dims[static_cast<std::size_t>(split->dim)];
  const bool divides = split->units > 0 ? size % split->units == 0 : size == 0;
  if (split->units < 0 || split->replicas < 1 || !divides) {
    return invalid_argument("dimension ", split->dim, " of size ", size, " cannot be cut into ",
                            split->units, " equal units with ", split->replicas, " replicas");
  }
  return {};
}

// What `peer` gives to `target`: everything a rank already has stays with it, the rest comes from
// the first holder.
std::vector<Span> given_spans(const TransferOperand& operand, int ranks, int peer, int target) {
  std::vector<Span> spans;
  const Piece piece(operand.dims, operand.from, ranks, peer);
  if (peer == target) {
    piece.append_spans(piece.units(), &spans);
    return spans;
  }
  const UnitRange candidates = piece.first_held();
  const UnitRange kept = Piece(operand.dims, operand.from, ranks, target).units();
  if (kept.begin == kept.end) {
    piece.append_spans(candidates, &spans);
    return spans;
  }
  piece.append_spans({candidates.begin, std::min(candidates.end, kept.begin)}, &spans);
  piece.append_spans({std::max(candidates.begin, kept.end), candidates.end}, &spans);
  return spans;
}

// A box of elements on both sides, reduced to the fewest dimensions that describe it.
class BoxPair {
 public:
  BoxPair(const TransferOperand& operand, int ranks, int sender, int receiver)
      : extents_(operand.dims),
        source_dims_(piece_dims(operand.dims, operand.from, ranks, sender)),
        target_dims_(piece_dims(operand.dims, operand.to, ranks, receiver)),
        source_begin_(operand.dims.size(), 0),
        target_begin_(operand.dims.size(), 0),
        element_size_(static_cast<std::int64_t>(operand.element_size)) {}

  void limit(int dim, std::int64_t source_begin, std::int64_t target_begin, std::int64_t length) {
    const auto d = static_cast<std::size_t>(dim);
    extents_[d] = length;
    source_begin_[d] = source_begin;
    target_begin_[d] = target_begin;
  }

  bool is_empty() const { return element_count(extents_) == 0; }

  LocalCopy regions(int buffer) const {
    const Dims source_strides = contiguous_strides(source_dims_);
    const Dims target_strides = contiguous_strides(target_dims_);
    LocalCopy pair;
    pair.from.buffer = pair.to.buffer = buffer;
    std::int64_t run = element_size_;
    for (std::size_t i = extents_.size(); i-- > 0;) {
      const std::int64_t from = source_strides[i] * element_size_;
      const std::int64_t to = target_strides[i] * element_size_;
      pair.from.offset += static_cast<std::size_t>(source_begin_[i] * from);
      pair.to.offset += static_cast<std::size_t>(target_begin_[i] * to);
      if (extents_[i] == 1) continue;
      std::vector<std::int64_t>& sizes = pair.from.sizes;
      if (sizes.empty() && from == run && to == run) {
        run *= extents_[i];
      } else if (!sizes.empty() && from == pair.from.strides.back() * sizes.back() &&
                 to == pair.to.strides.back() * sizes.back()) {
        sizes.back() *= extents_[i];
      } else {
        sizes.push_back(extents_[i]);
        pair.from.strides.push_back(from);
        pair.to.strides.push_back(to);
      }
    }
    // Collected from the innermost outwards; a region lists the outermost first.
    for (auto* list : {&pair.from.sizes, &pair.from.strides, &pair.to.strides}) {
      std::reverse(list->begin(), list->end());
    }
    pair.to.sizes = pair.from.sizes;
    pair.from.run = pair.to.run = run;
    return pair;
  }

 private:
  Dims extents_;
  Dims source_dims_;
  Dims target_dims_;
  Dims source_begin_;
  Dims target_begin_;
  std::int64_t element_size_;
};

// All regions from `sender` to `receiver`, the same on both ranks.
std::vector<LocalCopy> regions_between(const TransferOperand& operand, int buffer, int ranks,
                                       int sender, int receiver) {
  std::vector<Span> given;
  if (operand.from) {
    given = given_spans(operand, ranks, sender, receiver);
  } else if (sender != receiver) {
    return {};  // everybody has everything
  }
  std::vector<Span> taken;
  if (operand.to && operand.to->window) {
    const auto dim = static_cast<std::size_t>(operand.to->dim);
    taken = WindowRows(*operand.to, operand.dims[dim], ranks, receiver).rows();
  } else if (operand.to) {
    const Piece target(operand.dims, operand.to, ranks, receiver);
    target.append_spans(target.units(), &taken);
  }

  std::vector<LocalCopy> regions;
  const auto add = [&](const BoxPair& box) {
    if (!box.is_empty()) regions.push_back(box.regions(buffer));
  };
  const BoxPair whole(operand, ranks, sender, receiver);
  if (operand.from && operand.to && operand.from->dim == operand.to->dim) {
    for (const Span& g : given) {
      for (const Span& t : taken) {
        const std::int64_t begin = std::max(g.global, t.global);
        const std::int64_t end = std::min(g.global + g.length, t.global + t.length);
        if (begin >= end) continue;
        BoxPair box = whole;
        box.limit(operand.from->dim, g.local + begin - g.global, t.local + begin - t.global,
                  end - begin);
        add(box);
      }
    }
    return regions;
  }
  if (!operand.from) given.push_back({});
  if (!operand.to) taken.push_back({});
  for (const Span& g : given) {
    for (const Span& t : taken) {
      BoxPair box = whole;
      if (operand.from) box.limit(operand.from->dim, g.local, g.global, g.length);
      if (operand.to) box.limit(operand.to->dim, t.global, t.local, t.length);
      add(box);
    }
  }
  return regions;
}

// What one rank's windows read twice, and where they read the edge's number.
void append_window_copies(const TransferOperand& operand, int buffer, int ranks, int self,
                          TransferPlan* plan) {
  const int dim = operand.to->dim;
  const WindowRows windows(*operand.to, operand.dims[static_cast<std::size_t>(dim)], ranks, self);
  TransferOperand inside = operand;  // a box from the piece to the piece
  inside.dims[static_cast<std::size_t>(dim)] = windows.local_size();
  inside.from = inside.to = std::nullopt;
  const BoxPair whole(inside, ranks, self, self);
  for (const Span& span : windows.repeats()) {
    BoxPair box = whole;
    box.limit(dim, span.global, span.local, span.length);
    if (!box.is_empty()) plan->copies.push_back(box.regions(buffer));
  }
  for (const Span& span : windows.fills()) {
    BoxPair box = whole;
    box.limit(dim, span.local, span.local, span.length);
    if (!box.is_empty()) plan->fills.push_back(box.regions(buffer).to);
  }
}

// The second and further copies of units in one rank's target.
void append_copies(const TransferOperand& operand, int buffer, int ranks, int self,
                   std::vector<LocalCopy>* copies) {
  if (!operand.to || operand.to->replicas == 1) return;
  const Piece piece(operand.dims, operand.to, ranks, self);
  TransferOperand inside = operand;  // a box from the piece to the piece
  inside.from = operand.to;
  const BoxPair whole(inside, ranks, self, self);
  for (std::int64_t unit = piece.units().begin; unit < piece.units().end; ++unit) {
    for (std::int64_t copy = 1; copy < piece.copies_of(unit); ++copy) {
      BoxPair box = whole;
      const std::int64_t first = piece.local_of(unit);
      box.limit(operand.to->dim, first, first + copy * piece.unit_size(), piece.unit_size());
      if (!box.is_empty()) copies->push_back(box.regions(buffer));
    }
  }
}

Status check_operand(const TransferOperand& operand, int ranks, int self) {
  if (ranks < 1 || self < 0 || self >= ranks) {
    return invalid_argument("rank ", self, " of ", ranks, " does not exist");
  }
  TUTTI_RETURN_IF_ERROR(checked_element_count(operand.dims));
  TUTTI_RETURN_IF_ERROR(check_split(operand.dims, operand.from));
  if (operand.from && operand.from->window) {
    return invalid_argument("an exchange of pieces that overlap");
  }
  return check_split(operand.dims, operand.to);
}

TransferPlan empty_plan(int ranks) {
  TransferPlan plan;
  plan.exchange.send.resize(static_cast<std::size_t>(ranks));
  plan.exchange.receive.resize(static_cast<std::size_t>(ranks));
  return plan;
}

// Pieces of sequences that are joined along one dimension of an operand.
class JoinedPieces {
 public:
  JoinedPieces(const TransferOperand& operand, std::span<const std::int64_t> segments, int buffer)
      : segments_(segments), buffer_(buffer), dim_(static_cast<std::size_t>(operand.from->dim)) {
    const Dims& dims = operand.dims;
    whole_ = dims[dim_];
    for (std::size_t d = 0; d < dim_; ++d) outer_ *= dims[d];
    inner_ = static_cast<std::int64_t>(operand.element_size);
    for (std::size_t d = dim_ + 1; d < dims.size(); ++d) inner_ *= dims[d];
  }

  Status check() const {
    std::int64_t sum = 0;
    for (const std::int64_t segment : segments_) sum += segment;
    if (sum == whole_) return {};
    return invalid_argument("segments of ", sum, " elements in all are joined along dimension ",
                            dim_, " of ", whole_);
  }

  // A rank's, where they lie in its piece or in the whole.
  std::vector<Region> of(int ranks, int rank, bool is_in_whole) const {
    std::int64_t stored = 0;
    for (const std::int64_t segment : segments_) stored += part_size(segment, ranks, rank);
    std::vector<Region> regions;
    std::int64_t begin = 0;
    std::int64_t start = 0;
    for (const std::int64_t segment : segments_) {
      const std::int64_t count = part_size(segment, ranks, rank);
      const std::int64_t at = is_in_whole ? begin + part_offset(segment, ranks, rank) : start;
      if (count > 0 && outer_ > 0 && inner_ > 0) {
        regions.push_back({buffer_,
                           static_cast<std::size_t>(at * inner_),
                           {outer_},
                           {(is_in_whole ? whole_ : stored) * inner_},
                           count * inner_});
      }
      begin += segment;
      start += count;
    }
    return regions;
  }

 private:
  std::span<const std::int64_t> segments_;
  int buffer_;
  std::size_t dim_;
  std::int64_t whole_ = 0;
  std::int64_t outer_ = 1;
  std::int64_t inner_ = 1;  // bytes
};

}  // namespace

Dims piece_dims(const Dims& dims, const std::optional<PieceSplit>& split, int ranks, int rank) {
  Dims local = dims;
  if (split && split->window) {
    std::int64_t& size = local[static_cast<std::size_t>(split->dim)];
    size = WindowRows(*split, size, ranks, rank).local_size();
  } else if (split) {
    local[static_cast<std::size_t>(split->dim)] = Piece(dims, split, ranks, rank).local_size();
  }
  return local;
}

Result<TransferPlan> make_transfer_plan(std::span<const TransferOperand> operands, int ranks,
                                        int self) {
  TransferPlan plan = empty_plan(ranks);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_operand(operands[i], ranks, self));
    const int buffer = static_cast<int>(i);
    for (int peer = 0; peer < ranks; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      for (LocalCopy& pair : regions_between(operands[i], buffer, ranks, self, peer)) {
        plan.exchange.send[p].push_back(std::move(pair.from));
      }
      for (LocalCopy& pair : regions_between(operands[i], buffer, ranks, peer, self)) {
        plan.exchange.receive[p].push_back(std::move(pair.to));
      }
    }
    if (operands[i].to && operands[i].to->window) {
      append_window_copies(operands[i], buffer, ranks, self, &plan);
    } else {
      append_copies(operands[i], buffer, ranks, self, &plan.copies);
    }
  }
  return plan;
}

Result<TransferPlan> halo_plan(const Dims& dims, std::size_t element_size, const PieceSplit& from,
                               const PieceSplit& to, int ranks, int self) {
  if (from.dim != to.dim || !to.window) {
    return invalid_argument("a halo is read through windows along the dimension ", from.dim,
                            " that is split");
  }
  const TransferOperand operand{dims, element_size, from, to};
  return make_transfer_plan({&operand, 1}, ranks, self);
}

Result<TransferPlan> all_gather_plan(const Dims& dims, std::size_t element_size,
                                     const PieceSplit& from, int ranks, int self) {
  const TransferOperand operand{dims, element_size, from, std::nullopt};
  return make_transfer_plan({&operand, 1}, ranks, self);
}

Result<TransferPlan> joined_gather_plan(std::span<const TransferOperand> operands,
                                        std::span<const std::int64_t> segments, int ranks,
                                        int self) {
  TransferPlan plan;
  plan.exchange.send.resize(static_cast<std::size_t>(ranks));
  plan.exchange.receive.resize(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TransferOperand& operand = operands[i];
    if (!operand.from) return invalid_argument("operand ", i, " is not split");
    TUTTI_RETURN_IF_ERROR(check_split(operand.dims, operand.from));
    const JoinedPieces pieces(operand, segments, static_cast<int>(i));
    TUTTI_RETURN_IF_ERROR(pieces.check());
    const std::vector<Region> mine = pieces.of(ranks, self, false);
    for (std::vector<Region>& to : plan.exchange.send) {
      to.insert(to.end(), mine.begin(), mine.end());
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Region> theirs = pieces.of(ranks, rank, true);
      std::vector<Region>& from = plan.exchange.receive[static_cast<std::size_t>(rank)];
      from.insert(from.end(), theirs.begin(), theirs.end());
    }
  }
  return plan;
}

Result<TransferPlan> shard_slice_plan(const Dims& dims, std::size_t element_size,
                                      const PieceSplit& to, int ranks, int self) {
  const TransferOperand operand{dims, element_size, std::nullopt, to};
  return make_transfer_plan({&operand, 1}, ranks, self);
}

Result<TransferPlan> all_to_all_plan(std::span<const TransferOperand> operands, int ranks,
                                     int self) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].from || !operands[i].to) {
      return invalid_argument("all-to-all operand ", i, " needs a split on both sides");
    }
  }
  return make_transfer_plan(operands, ranks, self);
}

Result<TransferPlan> reduce_scatter_plan(const Dims& dims, std::size_t element_size,
                                         const PieceSplit& to, int ranks, int self) {
  const TransferOperand operand{dims, element_size, std::nullopt, to};
  TUTTI_RETURN_IF_ERROR(check_operand(operand, ranks, self));
  TransferPlan plan = empty_plan(ranks);
  const std::int64_t piece_bytes =
      element_count(piece_dims(dims, to, ranks, self)) * static_cast<std::int64_t>(element_size);
  for (int peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    // Whole on the sender, a piece on the receiver: what the receiver would cut from its own.
    for (LocalCopy& pair : regions_between(operand, 0, ranks, peer, peer)) {
      plan.exchange.send[p].push_back(std::move(pair.from));
    }
    for (LocalCopy& pair : regions_between(operand, 0, ranks, self, self)) {
      pair.to.offset += static_cast<std::size_t>(piece_bytes * peer);
      plan.exchange.receive[p].push_back(std::move(pair.to));
    }
  }
  std::vector<LocalCopy> copies;
  append_copies(operand, 0, ranks, self, &copies);
  for (int peer = 0; peer < ranks; ++peer) {
    for (LocalCopy copy : copies) {
      copy.from.offset += static_cast<std::size_t>(piece_bytes * peer);
      copy.to.offset += static_cast<std::size_t>(piece_bytes * peer);
      plan.copies.push_back(std::move(copy));
    }
  }
  return plan;
}

}  // namespace tutti
