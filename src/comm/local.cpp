#include "comm/local.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "comm/copy.h"
#include "comm/reduce.h"
#include "comm/rendezvous.h"
#include "graph/dim.h"

namespace tutti {
namespace {

// An all_reduce up to this size is computed whole by each rank: one meeting less.
constexpr std::int64_t kSmallReduce = 16 * 1024;

// What a rank shows its peers while it is inside a collective.
struct Published {
  std::string_view what;
  const ExchangePlan* plan = nullptr;
  const void* const* sources = nullptr;
  const void* source = nullptr;  // all_reduce
  void* target = nullptr;        // all_reduce
  std::int64_t count = 0;        // all_reduce
  DType dtype = DType::kUndefined;
  ReduceOp op = ReduceOp::kSum;

  bool agrees_with(const Published& other) const {
    return what == other.what && count == other.count && dtype == other.dtype && op == other.op;
  }
  std::string to_string() const {
    return count == 0 ? std::string(what) : str_cat(what, " of ", count, " ", dtype_name(dtype));
  }
};

// A cache line apart, so that ranks do not disturb each other.
struct alignas(64) Slot {
  Published published;
  std::vector<const void*> reduce_sources;
  std::vector<std::byte> scratch;
};

}  // namespace

class LocalGroup {
 public:
  LocalGroup(int size, const LocalCommunicatorOptions& options)
      : meeting(size, options.timeout, options.cores), slots(static_cast<std::size_t>(size)) {
    for (Slot& slot : slots) {
      slot.reduce_sources.resize(slots.size());
      slot.scratch.resize(kSmallReduce);
    }
  }

  Rendezvous meeting;
  std::vector<Slot> slots;  // each written by its rank between meetings only
};

namespace {

Status check_side(const std::vector<std::vector<Region>>& regions, std::size_t ranks,
                  std::size_t buffers, std::string_view side) {
  if (regions.size() != ranks) {
    return internal_error("exchange: the plan has ", regions.size(), " ", side, " lists for ",
                          ranks, " ranks");
  }
  for (const std::vector<Region>& list : regions) {
    for (const Region& region : list) {
      if (region.buffer < 0 || static_cast<std::size_t>(region.buffer) >= buffers) {
        return internal_error("exchange: ", side, " region of buffer ", region.buffer,
                              ", but only ", buffers, " were given");
      }
    }
  }
  return {};
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->meeting.size(); }

  Status exchange(const ExchangePlan& plan, std::span<const void* const> sources,
                  std::span<void* const> targets) override {
    Status checked = check_side(plan.send, ranks(), sources.size(), "send");
    if (checked.ok()) checked = check_side(plan.receive, ranks(), targets.size(), "receive");
    if (!checked.ok()) return give_up(checked);
    TUTTI_RETURN_IF_ERROR(meet({.what = "exchange", .plan = &plan, .sources = sources.data()}));
    // Each rank begins with another peer, so that they do not all read the same memory.
    for (std::size_t i = 1; i <= ranks(); ++i) {
      const std::size_t peer = (static_cast<std::size_t>(rank_) + i) % ranks();
      if (!pull(plan, peer, targets)) break;
    }
    sent_bytes_.fetch_add(plan.sent_bytes(rank_), std::memory_order_relaxed);
    return part();
  }

  Status all_reduce(const void* source, void* target, std::int64_t count, DType dtype,
                    ReduceOp op) override {
    const auto width = static_cast<std::int64_t>(dtype_size(dtype));
    if (width == 0 || dtype == DType::kBool) {
      return give_up(invalid_argument("all_reduce takes numbers, not ", dtype_name(dtype)));
    }
    TUTTI_RETURN_IF_ERROR(meet({.what = "all_reduce",
                                .source = source,
                                .target = target,
                                .count = count,
                                .dtype = dtype,
                                .op = op}));
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      own().reduce_sources[peer] = group_->slots[peer].published.source;
    }
    if (count * width > kSmallReduce) return reduce_by_shares(target, count, width, dtype, op);
    add_sent(count * width * (size() - 1));
    const Status reduced =
        reduce_range(own().reduce_sources, own().scratch.data(), 0, count, dtype, op);
    const Status parted = part();
    if (count > 0) {
      std::memcpy(target, own().scratch.data(), static_cast<std::size_t>(count * width));
    }
    return reduced.ok() ? parted : reduced;
  }

  Status barrier() override {
    TUTTI_RETURN_IF_ERROR(meet({.what = "barrier"}));
    return part();
  }

  Status gather(const void* mine, void* all, std::size_t bytes) override {
    const auto count = static_cast<std::int64_t>(bytes);
    TUTTI_RETURN_IF_ERROR(
        meet({.what = "gather", .source = mine, .count = count, .dtype = DType::kUInt8}));
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      std::memcpy(static_cast<std::byte*>(all) + peer * bytes, group_->slots[peer].published.source,
                  bytes);
    }
    return part();
  }

  void add_sent(std::int64_t bytes) override {
    sent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  void abort(const Status& reason) override { group_->meeting.abort(reason); }

  std::int64_t sent_bytes() const override { return sent_bytes_.load(std::memory_order_relaxed); }

 private:
  std::size_t ranks() const { return group_->slots.size(); }
  Slot& own() { return group_->slots[static_cast<std::size_t>(rank_)]; }

  Status give_up(const Status& reason) {
    abort(reason);
    return reason;
  }

  // First meeting of a collective: afterwards all that peers published may be read, until part().
  Status meet(const Published& mine) {
    // Whoever takes part in no meeting must not write what a peer may be reading.
    TUTTI_RETURN_IF_ERROR(group_->meeting.state());
    own().published = mine;
    TUTTI_RETURN_IF_ERROR(group_->meeting.arrive(rank_, mine.what));
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      const Published& theirs = group_->slots[peer].published;
      if (theirs.agrees_with(mine)) continue;
      // All ranks see that not all agree, and all come here.
      abort(internal_error("rank ", rank_, " is in ", mine, ", rank ", peer, " in ", theirs,
                           ": the order of collectives differs"));
      return part();
    }
    return {};
  }

  // Last meeting of a collective: nobody reads what others published any more.
  Status part() {
    group_->meeting.arrive_again(rank_);
    return group_->meeting.state();
  }

  // False after an abort.
  bool pull(const ExchangePlan& plan, std::size_t peer, std::span<void* const> targets) {
    const Published& theirs = group_->slots[peer].published;
    const std::vector<Region>& from = theirs.plan->send[static_cast<std::size_t>(rank_)];
    const std::vector<Region>& to = plan.receive[peer];
    if (from.size() != to.size()) {
      abort(internal_error("exchange: rank ", peer, " sends ", from.size(), " regions, rank ",
                           rank_, " expects ", to.size()));
      return false;
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (from[i].sizes != to[i].sizes || from[i].run != to[i].run) {
        abort(internal_error("exchange: region ", i, " from rank ", peer, " to rank ", rank_,
                             " has sizes ", from[i].sizes, " x ", from[i].run, " bytes there and ",
                             to[i].sizes, " x ", to[i].run, " here"));
        return false;
      }
      copy_region(from[i], theirs.sources[static_cast<std::size_t>(from[i].buffer)], to[i],
                  targets[static_cast<std::size_t>(to[i].buffer)]);
    }
    return true;
  }

  // Each rank reduces its share into its own target, then copies the others' shares. Nobody but its
  // owner reads a share of the sources, so a target may be the source.
  Status reduce_by_shares(void* target, std::int64_t count, std::int64_t width, DType dtype,
                          ReduceOp op) {
    const auto n = static_cast<std::int64_t>(ranks());
    const std::int64_t begin = part_offset(count, n, rank_);
    const std::int64_t own_share = part_size(count, n, rank_);
    // To each peer its share of what this rank has, and this rank's share of the result.
    add_sent((count - own_share + (n - 1) * own_share) * width);
    const Status reduced =
        reduce_range(own().reduce_sources, target, begin, begin + own_share, dtype, op);
    group_->meeting.arrive_again(rank_);
    for (std::int64_t i = 1; i < n; ++i) {
      const std::int64_t peer = (rank_ + i) % n;
      const std::int64_t offset = part_offset(count, n, peer) * width;
      const void* theirs = group_->slots[static_cast<std::size_t>(peer)].published.target;
      std::memcpy(static_cast<std::byte*>(target) + offset,
                  static_cast<const std::byte*>(theirs) + offset,
                  static_cast<std::size_t>(part_size(count, n, peer) * width));
    }
    const Status parted = part();
    return reduced.ok() ? parted : reduced;
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  std::atomic<std::int64_t> sent_bytes_{0};
};

}  // namespace

std::shared_ptr<LocalGroup> make_local_group(int size, const LocalCommunicatorOptions& options) {
  return std::make_shared<LocalGroup>(size, options);
}

std::shared_ptr<Communicator> local_communicator(const std::shared_ptr<LocalGroup>& group,
                                                 int rank) {
  return std::make_shared<LocalCommunicator>(group, rank);
}

void renew(LocalGroup& group) { group.meeting.reset(); }

std::vector<std::shared_ptr<Communicator>> make_local_communicators(
    int size, const LocalCommunicatorOptions& options) {
  const std::shared_ptr<LocalGroup> group = make_local_group(size, options);
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) communicators.push_back(local_communicator(group, rank));
  return communicators;
}

}  // namespace tutti
