// RingAttention: every rank keeps its queries, keys and values pass by piece by piece.
//
// As in Ring Attention (Liu et al. 2023, arXiv:2310.01889) with the streaming softmax of Milakov
// and Gimelshein (2018, arXiv:1805.02867): each row keeps a running maximum, sum and output. In
// step i a rank takes the piece of rank + i from its owner, k and v in one transfer, so the bytes
// are those of a gather, and no more than two pieces lie on a rank.
#include <algorithm>
#include <cstring>

#include "backends/cpu/attention_kernel.h"
#include "backends/cpu/exchange_kernels.h"
#include "graph/dim.h"

namespace tutti::cpu {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// One rank's part of the work, as every rank computes it.
struct RingRank {
  std::int64_t first_key = 0;
  std::int64_t keys = 0;
  std::int64_t queries = 0;
  std::int64_t causal_offset = 0;  // of its first query

  bool sees(const RingRank& owner, bool is_causal) const {
    if (queries == 0 || owner.keys == 0) return false;
    return !is_causal || causal_offset + queries - 1 >= owner.first_key;
  }
};

struct RingStep {
  AttentionShape shape;
  std::int64_t first_key = 0;
  bool is_own = false;
  bool attends = false;
  bool exchanges = false;  // some rank receives something
  ExchangePlan exchange;
};

class RingAttentionKernel final : public Kernel {
 public:
  RingAttentionKernel(std::shared_ptr<Communicator> communicator, std::vector<RingStep> steps,
                      const attention::Functions& functions, std::size_t k_bytes,
                      std::size_t v_bytes, std::size_t out_bytes, ThreadPool* pool)
      : communicator_(std::move(communicator)),
        steps_(std::move(steps)),
        f_(functions),
        k_bytes_(aligned(k_bytes)),
        v_bytes_(aligned(v_bytes)),
        out_bytes_(out_bytes),
        pool_(pool) {
    for (const RingStep& step : steps_) {
      if (!step.attends) continue;
      last_ = &step;
      const AttentionShape& s = step.shape;
      work_bytes_ = std::max(work_bytes_, attend_workspace_bytes(s, f_, *pool_));
      state_bytes_ =
          aligned(static_cast<std::size_t>(f_.state_floats(s) * f_.tile_count(s)) * sizeof(float));
      lengths_bytes_ = aligned(static_cast<std::size_t>(s.batch) * sizeof(std::int64_t));
    }
  }

  std::size_t workspace_bytes() const override {
    return k_bytes_ + v_bytes_ + state_bytes_ + lengths_bytes_ + work_bytes_;
  }

  Status run(const KernelArgs& args) override {
    auto* k_piece = static_cast<std::byte*>(args.workspace);
    std::byte* v_piece = k_piece + k_bytes_;
    const AttentionData whole = attention_data(args);
    AttentionData data = whole;
    data.state = reinterpret_cast<float*>(v_piece + v_bytes_);
    auto* lengths = reinterpret_cast<std::int64_t*>(v_piece + v_bytes_ + state_bytes_);
    std::byte* work = v_piece + v_bytes_ + state_bytes_ + lengths_bytes_;
    const void* const sources[] = {whole.k, whole.v};
    void* const targets[] = {k_piece, v_piece};
    if (last_ == nullptr && out_bytes_ > 0) std::memset(args.outputs[0], 0, out_bytes_);
    for (const RingStep& step : steps_) {
      if (step.exchanges) {
        TUTTI_RETURN_IF_ERROR(communicator_->exchange(step.exchange, sources, targets));
      }
      if (!step.attends) continue;
      data.k = step.is_own ? whole.k : k_piece;
      data.v = step.is_own ? whole.v : v_piece;
      if (whole.mask != nullptr) {
        data.mask = static_cast<const std::byte*>(whole.mask) +
                    step.first_key * step.shape.mask_strides[3] *
                        static_cast<std::int64_t>(dtype_size(step.shape.mask_dtype));
      }
      if (whole.key_lengths != nullptr) {
        for (std::int64_t b = 0; b < step.shape.batch; ++b) {
          lengths[b] = std::max<std::int64_t>(whole.key_lengths[b] - step.first_key, 0);
        }
        data.key_lengths = lengths;
      }
      data.finishes = &step == last_;
      attend(step.shape, data, f_, pool_, work);
      data.resumes = true;
    }
    return {};
  }

 private:
  const std::shared_ptr<Communicator> communicator_;
  const std::vector<RingStep> steps_;
  const attention::Functions& f_;
  const std::size_t k_bytes_;  // of the largest piece
  const std::size_t v_bytes_;
  const std::size_t out_bytes_;
  ThreadPool* const pool_;
  const RingStep* last_ = nullptr;  // that attends; null: this rank sees no key
  std::size_t state_bytes_ = 0;
  std::size_t lengths_bytes_ = 0;
  std::size_t work_bytes_ = 0;
};

// How keys and queries are shared out; every rank finds the same.
Result<std::vector<RingRank>> share_out(const KernelSpec& spec, std::int64_t all_keys, int ranks) {
  const std::size_t tokens = spec.node.attr_string("layout") == "bshd" ? 1 : 2;
  const Dim& queries = spec.node.input(0)->shape()[tokens];
  const Shape offset = spec.node.attr_dims("causal_offset");
  std::vector<RingRank> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    SymbolMap symbols = spec.symbols;
    symbols["rank." + spec.node.attr_string("axis")] = rank;
    RingRank share;
    share.first_key = part_offset(all_keys, ranks, rank);
    share.keys = part_size(all_keys, ranks, rank);
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
    const std::size_t owner = (self + i) % ranks;
    RingStep step;
    step.is_own = i == 0;
    step.first_key = shares_[owner].first_key;
    step.attends = shares_[self].sees(shares_[owner], own_.is_causal);
    step.shape = shape_of(shares_[owner]);
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

  std::vector<Region> regions(std::int64_t keys) const {
    return {all_bytes(0, row_bytes_[0] * static_cast<std::size_t>(keys)),
            all_bytes(1, row_bytes_[1] * static_cast<std::size_t>(keys))};
  }

  // The work on one piece: as many keys as it has, seen from its first one.
  AttentionShape shape_of(const RingRank& owner) const {
    AttentionShape s = own_;
    s.keys = owner.keys;
    const auto strides = [&](std::int64_t width) {
      const std::int64_t all = s.keys * s.kv_heads * width;
      return is_token_major_ ? AttentionStrides{all, width, s.kv_heads * width}
                             : AttentionStrides{all, s.keys * width, width};
    };
    s.k = strides(s.d);
    s.v = strides(s.e);
    s.causal_offset -= owner.first_key;
    return s;
  }

  const AttentionShape own_;
  const std::vector<RingRank> shares_;
  const int self_;
  const bool is_token_major_;
  const std::size_t row_bytes_[2];  // of one token of all batch elements and heads: k, v
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_ring_attention(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  const Shape size = spec.node.attr_dims("size");
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t all_keys, size[0].evaluate(spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(const AttentionShape own, read_attention_shape(spec, all_keys));
  TUTTI_ASSIGN_OR_RETURN(std::vector<RingRank> shares,
                         share_out(spec, all_keys, communicator->size()));
  const RingRank& mine = shares[static_cast<std::size_t>(communicator->rank())];
  if (own.keys != mine.keys || own.queries != mine.queries) {
    return invalid_argument("rank ", communicator->rank(), " has ", own.keys, " keys and ",
                            own.queries, " queries, expected ", mine.keys, " and ", mine.queries);
  }
  TUTTI_ASSIGN_OR_RETURN(const attention::Functions* const functions,
                         attention::functions_for(spec.inputs[0].dtype));
  const RingPlanner planner(spec, own, std::move(shares), communicator->rank());
  return std::unique_ptr<Kernel>(std::make_unique<RingAttentionKernel>(
      communicator, planner.steps(), *functions, planner.most_bytes(0), planner.most_bytes(1),
      spec.outputs[0].byte_size(), context.pool));
}

}  // namespace tutti::cpu
