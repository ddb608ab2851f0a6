#include "backends/cuda/attention_return.h"

#include <algorithm>
#include <optional>

namespace tutti::cuda {
namespace {

// A box of results: some tokens of all batches, with all heads. Counts in bytes.
struct TokenBox {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t token_stride = 0;  // at the target
  std::int64_t batch_stride = 0;
};

// `token` and `batch`: strides of the results. None where the box is another one.
std::optional<TokenBox> token_box(const Region& from, const Region& to, std::int64_t token,
                                  std::int64_t batch, const AttentionProblem& p) {
  const auto offset = static_cast<std::int64_t>(from.offset);
  if (from.run != token || to.run != token || offset % token != 0 || offset >= batch) return {};
  TokenBox box;
  box.first = offset / token;
  std::int64_t batches = 1;
  for (std::size_t i = 0; i < from.sizes.size(); ++i) {
    if (from.strides[i] == token && p.queries > 1) {
      box.count = from.sizes[i];
      box.token_stride = to.strides[i];
    } else if (from.strides[i] == batch) {
      batches = from.sizes[i];
      box.batch_stride = to.strides[i];
    } else {
      return {};
    }
  }
  const bool is_whole = batches == p.batch && batches * box.count * token == from.byte_size();
  return is_whole ? std::optional(box) : std::nullopt;
}

}  // namespace

Result<std::vector<AttentionPlace>> places_of_results(const AttentionProblem& problem,
                                                      const std::vector<TransferPlan>& plans,
                                                      std::size_t self) {
  const AttentionProblem& p = problem;
  const auto width = static_cast<std::int64_t>(dtype_size(p.dtype));
  std::vector<AttentionPlace> places;
  std::int64_t covered = 0;
  for (std::size_t receiver = 0; receiver < plans.size(); ++receiver) {
    const std::vector<Region>& from = plans[self].exchange.send[receiver];
    const std::vector<Region>& to = plans[receiver].exchange.receive[self];
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto box = token_box(from[i], to[i], p.out.token * width, p.out.batch * width, p);
      if (!box) return unimplemented("a box of results that is not tokens with all their heads");
      AttentionPlace place;
      place.query = box->first;
      place.target = receiver;
      place.offset = static_cast<std::int64_t>(to[i].offset) / width;
      place.batch_stride = box->batch_stride / width;
      place.token_stride = box->token_stride / width;
      places.push_back(place);
      covered += box->count;
    }
  }
  std::sort(places.begin(), places.end(),
            [](const AttentionPlace& a, const AttentionPlace& b) { return a.query < b.query; });
  const bool is_each_once =
      std::adjacent_find(places.begin(), places.end(),
                         [](const AttentionPlace& a, const AttentionPlace& b) {
                           return a.query == b.query;
                         }) == places.end();
  if (covered != p.queries || places.empty() || !is_each_once) {
    return unimplemented("results of ", p.queries, " queries that go to ", covered, " tokens");
  }
  if (places.size() > kMaxAttentionPlaces) {
    return unimplemented("results that go to ", places.size(), " places");
  }
  return places;
}

Result<AttentionReturn> AttentionReturn::create(
    RankContext& context, const ExchangePlans& all,
    const std::vector<std::vector<TransferPlan>>& pieces) {
  AttentionReturn made(context, all);
  const auto ranks = static_cast<std::size_t>(made.meeting_.size());
  const auto self = static_cast<std::size_t>(made.meeting_.rank());
  for (const std::vector<TransferPlan>& plans : pieces) {
    std::vector<BoxCopies::Box> boxes;
    for (std::size_t i = 1; i <= ranks; ++i) {
      const std::size_t peer = (self + i) % ranks;  // its own comes last
      const std::vector<Region>& from = plans[self].exchange.send[peer];
      const std::vector<Region>& to = plans[peer].exchange.receive[self];
      if (from.size() != to.size()) {
        return internal_error("exchange: rank ", self, " sends ", from.size(), " regions, rank ",
                              peer, " expects ", to.size());
      }
      for (std::size_t r = 0; r < from.size(); ++r) {
        boxes.push_back({from[r], 0, to[r], static_cast<int>(1 + peer)});
      }
    }
    TUTTI_ASSIGN_OR_RETURN(BoxCopies copies, BoxCopies::create(context, boxes, 1 + ranks));
    made.copies_.push_back(std::move(copies));
    made.sent_bytes_ += plans[self].exchange.sent_bytes(static_cast<int>(self));
  }
  made.targets_.resize(ranks);
  made.addresses_.resize(ranks + 2);
  return made;
}

Status AttentionReturn::open(void* out) {
  const void* const mine[] = {out};
  TUTTI_RETURN_IF_ERROR(meeting_.open(mine));
  for (std::size_t rank = 0; rank < targets_.size(); ++rank) {
    const int number = static_cast<int>(rank);
    targets_[rank] =
        number == meeting_.rank() ? out : const_cast<void*>(meeting_.buffer(number, 0));
    addresses_[1 + rank] = targets_[rank];
  }
  return {};
}

Status AttentionReturn::copy(std::size_t piece, const void* results) {
  addresses_[0] = results;
  return copies_[piece].run(addresses_);
}

Status AttentionReturn::close() {
  meeting_.add_sent(sent_bytes_);
  return meeting_.close();
}

}  // namespace tutti::cuda
