// RingAttention: every rank keeps its queries, keys and values pass by piece by piece.
//
// As in Ring Attention (Liu et al. 2023, arXiv:2310.01889) with the streaming softmax of Milakov
// and Gimelshein (2018, arXiv:1805.02867): each row keeps a running maximum, sum and output. In
// step i a rank takes the piece of rank + i from its owner, k and v in one transfer, so the bytes
// are those of a gather. The next piece comes while the rank attends to the one at hand, so no more
// than three lie on a rank. Keys that are joined of several sequences, each cut by itself, come as
// pieces of all of them: runs of neighbouring keys.
#include <algorithm>
#include <cstring>

#include "backends/cpu/attention_kernel.h"
#include "backends/cpu/courier.h"
#include "backends/cpu/exchange_kernels.h"
#include "graph/dim.h"

namespace tutti::cpu {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Neighbouring keys of a piece.
struct KeyRun {
  std::int64_t first = 0;  // in the whole sequence
  std::int64_t start = 0;  // in the piece
  std::int64_t count = 0;
};

// One rank's part of the work, as every rank computes it.
struct RingRank {
  std::vector<KeyRun> runs;
  std::int64_t keys = 0;
  std::int64_t queries = 0;
  std::int64_t causal_offset = 0;  // of its first query

  bool sees(const KeyRun& run, bool is_causal) const {
    if (queries == 0 || run.count == 0) return false;
    return !is_causal || causal_offset + queries - 1 >= run.first;
  }
  bool sees(const RingRank& owner, bool is_causal) const {
    return std::any_of(owner.runs.begin(), owner.runs.end(),
                       [&](const KeyRun& run) { return sees(run, is_causal); });
  }
};

// A run of keys that this rank attends to.
struct RingRun {
  AttentionShape shape;
  std::int64_t first_key = 0;
  std::size_t k_offset = 0;  // bytes, in the piece
  std::size_t v_offset = 0;
};

struct RingStep {
  std::vector<RingRun> runs;
  bool exchanges = false;  // some rank receives something
  ExchangePlan exchange;
};

class RingAttentionKernel final : public Kernel {
 public:
  RingAttentionKernel(std::shared_ptr<Communicator> communicator, std::shared_ptr<Courier> courier,
                      std::vector<RingStep> steps, const attention::Functions& functions,
                      std::size_t k_bytes, std::size_t v_bytes, std::size_t out_bytes,
                      ThreadPool* pool)
      : communicator_(std::move(communicator)),
        courier_(std::move(courier)),
        steps_(std::move(steps)),
        f_(functions),
        k_bytes_(aligned(k_bytes)),
        v_bytes_(aligned(v_bytes)),
        out_bytes_(out_bytes),
        pool_(pool) {
    for (const RingStep& step : steps_) {
      for (const RingRun& run : step.runs) {
        last_ = &run;
        const AttentionShape& s = run.shape;
        work_bytes_ = std::max(work_bytes_, attend_workspace_bytes(s, f_, *pool_));
        state_bytes_ = aligned(static_cast<std::size_t>(f_.state_floats(s) * f_.tile_count(s)) *
                               sizeof(float));
        lengths_bytes_ = aligned(static_cast<std::size_t>(s.batch) * sizeof(std::int64_t));
      }
    }
  }

  std::size_t workspace_bytes() const override {
    return pieces() * (k_bytes_ + v_bytes_) + state_bytes_ + lengths_bytes_ + work_bytes_;
  }

  Status run(const KernelArgs& args) override {
    auto* pieces_begin = static_cast<std::byte*>(args.workspace);
    std::byte* rest = pieces_begin + pieces() * (k_bytes_ + v_bytes_);
    const AttentionData whole = attention_data(args);
    AttentionData data = whole;
    data.state = reinterpret_cast<float*>(rest);
    auto* lengths = reinterpret_cast<std::int64_t*>(rest + state_bytes_);
    std::byte* work = rest + state_bytes_ + lengths_bytes_;
    if (last_ == nullptr && out_bytes_ > 0) std::memset(args.outputs[0], 0, out_bytes_);
    const auto piece_of = [&](std::size_t step) {
      return pieces_begin + (step % pieces()) * (k_bytes_ + v_bytes_);
    };
    const auto fetch = [&](std::size_t i) -> Status {
      if (!steps_[i].exchanges) return {};
      const void* const sources[] = {whole.k, whole.v};
      void* const targets[] = {piece_of(i), piece_of(i) + k_bytes_};
      return communicator_->exchange(steps_[i].exchange, sources, targets);
    };
    const auto use = [&](std::size_t i) {
      for (const RingRun& run : steps_[i].runs) {
        data.k = i == 0 ? whole.k : piece_of(i);
        data.v = i == 0 ? whole.v : piece_of(i) + k_bytes_;
        attend_to(run, whole, data, lengths, work);
        data.resumes = true;
      }
    };
    return fetch_ahead(*courier_, steps_.size(), fetch, use);
  }

 private:
  // That others send: the one at hand and the next.
  std::size_t pieces() const { return std::min<std::size_t>(2, steps_.size() - 1); }

  void attend_to(const RingRun& run, const AttentionData& whole, AttentionData data,
                 std::int64_t* lengths, std::byte* work) {
    data.k = static_cast<const std::byte*>(data.k) + run.k_offset;
    data.v = static_cast<const std::byte*>(data.v) + run.v_offset;
    if (whole.mask != nullptr) {
      data.mask = static_cast<const std::byte*>(whole.mask) +
                  run.first_key * run.shape.mask_strides[3] *
                      static_cast<std::int64_t>(dtype_size(run.shape.mask_dtype));
    }
    if (whole.key_lengths != nullptr) {
      for (std::int64_t b = 0; b < run.shape.batch; ++b) {
        lengths[b] = std::max<std::int64_t>(whole.key_lengths[b] - run.first_key, 0);
      }
      data.key_lengths = lengths;
    }
    data.finishes = &run == last_;
    attend(run.shape, data, f_, pool_, work);
  }

  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<Courier> courier_;
  const std::vector<RingStep> steps_;
  const attention::Functions& f_;
  const std::size_t k_bytes_;  // of the largest piece
  const std::size_t v_bytes_;
  const std::size_t out_bytes_;
  ThreadPool* const pool_;
  const RingRun* last_ = nullptr;  // null: this rank sees no key
  std::size_t state_bytes_ = 0;
  std::size_t lengths_bytes_ = 0;
  std::size_t work_bytes_ = 0;
};

// Pieces of the whole sequence, or of each of those that it is joined of.
std::vector<KeyRun> runs_of_rank(const std::vector<std::int64_t>& segments, int ranks, int rank) {
  std::vector<KeyRun> runs;
  std::int64_t begin = 0;
  std::int64_t start = 0;
  for (const std::int64_t segment : segments) {
    const std::int64_t count = part_size(segment, ranks, rank);
    runs.push_back({begin + part_offset(segment, ranks, rank), start, count});
    begin += segment;
    start += count;
  }
  return runs;
}

// How keys and queries are shared out; every rank finds the same.
Result<std::vector<RingRank>> share_out(const KernelSpec& spec,
                                        const std::vector<std::int64_t>& segments, int ranks) {
  const std::size_t tokens = spec.node.attr_string("layout") == "bshd" ? 1 : 2;
  const Dim& queries = spec.node.input(0)->shape()[tokens];
  const Shape offset = spec.node.attr_dims("causal_offset");
  std::vector<RingRank> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    SymbolMap symbols = spec.symbols;
    symbols["rank." + spec.node.attr_string("axis")] = rank;
    RingRank share;
    share.runs = runs_of_rank(segments, ranks, rank);
    for (const KeyRun& run : share.runs) share.keys += run.count;
    TUTTI_ASSIGN_OR_RETURN(share.queries, queries.evaluate(symbols));
    if (!offset.empty()) {
      TUTTI_ASSIGN_OR_RETURN(share.causal_offset, offset[0].evaluate(symbols));
    }
    shares.push_back(share);
  }
  return shares;
}

// A whole tensor as one region.
Region all_bytes(int buffer, std::size_t bytes) {
  return {buffer, 0, {1}, {0}, static_cast<std::int64_t>(bytes)};
}

class RingPlanner {
 public:
  RingPlanner(const KernelSpec& spec, const AttentionShape& own, std::vector<RingRank> shares,
              int self)
      : own_(own),
        shares_(std::move(shares)),
        self_(self),
        is_token_major_(spec.node.attr_string("layout") == "bshd"),
        has_order_(own.is_causal || own.mask_dtype != DType::kUndefined ||
                   spec.node.input(4) != nullptr),
        element_bytes_{dtype_size(spec.inputs[1].dtype), dtype_size(spec.inputs[2].dtype)},
        row_bytes_{piece_bytes(own.batch * own.kv_heads * own.d, spec.inputs[1].dtype),
                   piece_bytes(own.batch * own.kv_heads * own.e, spec.inputs[2].dtype)} {}

  std::size_t most_bytes(std::size_t operand) const {
    std::int64_t keys = 0;
    for (const RingRank& share : shares_) keys = std::max(keys, share.keys);
    return row_bytes_[operand] * static_cast<std::size_t>(keys);
  }

  std::vector<RingStep> steps() const {
    std::vector<RingStep> steps;
    for (std::size_t i = 0; i < shares_.size(); ++i) steps.push_back(step(i));
    return steps;
  }

 private:
  static std::size_t piece_bytes(std::int64_t elements, DType dtype) {
    return static_cast<std::size_t>(elements) * dtype_size(dtype);
  }

  RingStep step(std::size_t i) const {
    const std::size_t ranks = shares_.size();
    const auto self = static_cast<std::size_t>(self_);
    const RingRank& owner = shares_[(self + i) % ranks];
    RingStep step;
    for (const KeyRun& run : runs_of(owner)) {
      if (shares_[self].sees(run, own_.is_causal)) step.runs.push_back(run_of(owner, run));
    }
    if (i == 0) return step;
    step.exchange.send.resize(ranks);
    step.exchange.receive.resize(ranks);
    for (std::size_t reader = 0; reader < ranks; ++reader) {
      const std::size_t from = (reader + i) % ranks;
      if (!shares_[reader].sees(shares_[from], own_.is_causal)) continue;
      step.exchanges = true;
      if (from == self) step.exchange.send[reader] = regions(shares_[from].keys);
      if (reader == self) step.exchange.receive[from] = regions(shares_[from].keys);
    }
    return step;
  }

  // Where the order of keys does not matter, all are one run.
  std::vector<KeyRun> runs_of(const RingRank& owner) const {
    if (has_order_) return owner.runs;
    return {KeyRun{0, 0, owner.keys}};
  }

  std::vector<Region> regions(std::int64_t keys) const {
    return {all_bytes(0, row_bytes_[0] * static_cast<std::size_t>(keys)),
            all_bytes(1, row_bytes_[1] * static_cast<std::size_t>(keys))};
  }

  // The work on one run: as many keys as it has, seen from its first one.
  RingRun run_of(const RingRank& owner, const KeyRun& run) const {
    RingRun made;
    AttentionShape& s = made.shape;
    s = own_;
    s.keys = run.count;
    const auto strides = [&](std::int64_t width) {
      const std::int64_t all = owner.keys * s.kv_heads * width;
      return is_token_major_ ? AttentionStrides{all, width, s.kv_heads * width}
                             : AttentionStrides{all, owner.keys * width, width};
    };
    s.k = strides(s.d);
    s.v = strides(s.e);
    s.causal_offset -= run.first;
    made.first_key = run.first;
    made.k_offset = static_cast<std::size_t>(run.start * s.k.token) * element_bytes_[0];
    made.v_offset = static_cast<std::size_t>(run.start * s.v.token) * element_bytes_[1];
    return made;
  }

  const AttentionShape own_;
  const std::vector<RingRank> shares_;
  const int self_;
  const bool is_token_major_;
  const bool has_order_;                // of the keys, which a mask or a length counts
  const std::size_t element_bytes_[2];  // k, v
  const std::size_t row_bytes_[2];      // of one token of all batch elements and heads: k, v
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_ring_attention(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  const Shape size = spec.node.attr_dims("size");
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t all_keys, size[0].evaluate(spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const AttentionShape own, read_attention_shape(spec, all_keys));
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::int64_t> segments,
                         evaluate(spec.node.attr_dims("segments"), spec.symbols));
  if (segments.empty()) segments = {all_keys};
  TUTTI_ASSIGN_OR_RETURN(std::vector<RingRank> shares,
                         share_out(spec, segments, communicator->size()));
  const RingRank& mine = shares[static_cast<std::size_t>(communicator->rank())];
  if (own.keys != mine.keys || own.queries != mine.queries) {
    return invalid_argument("rank ", communicator->rank(), " has ", own.keys, " keys and ",
                            own.queries, " queries, expected ", mine.keys, " and ", mine.queries);
  }
  TUTTI_ASSIGN_OR_RETURN(const attention::Functions* const functions,
                         attention::functions_for(spec.inputs[0].dtype));
  const RingPlanner planner(spec, own, std::move(shares), communicator->rank());
  if (context.courier == nullptr) context.courier = std::make_shared<Courier>();
  return std::unique_ptr<Kernel>(std::make_unique<RingAttentionKernel>(
      communicator, context.courier, planner.steps(), *functions, planner.most_bytes(0),
      planner.most_bytes(1), spec.outputs[0].byte_size(), context.pool));
}

}  // namespace tutti::cpu
