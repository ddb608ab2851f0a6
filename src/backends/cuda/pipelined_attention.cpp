// PipelinedAttention: the ranks' tokens become heads, piece by piece where that pays; while one
// piece of the heads is attended to, the next one arrives, and results go back as they come (the
// exchanges are those of DeepSpeed Ulysses, Jacobs et al. 2023).
#include <algorithm>
#include <array>

#include "backends/cuda/attention_return.h"
#include "backends/cuda/lanes.h"
#include "backends/cuda/pipeline_body.h"
#include "backends/cuda/transfer.h"
#include "backends/cuda/workspace.h"

namespace tutti::cuda {
namespace {

// In pieces, less than this is not worth more launches. By the shape alone: all ranks must find the
// same.
constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;  // that a rank sends and receives
constexpr std::int64_t kQueryTile = 128;
constexpr std::int64_t kLeastTiles = 512;  // of queries in a piece, so that they fill the card

constexpr std::size_t kOperands = 3;  // queries, keys, values

// How the heads of an operand are cut: their runs, which lie side by side, in `parts`.
struct Cut {
  std::int64_t run = 0;  // bytes of a rank's heads of one token
  std::int64_t parts = 1;
  std::int64_t shift = 0;  // bytes in front of the exchanged tokens
};

// What of `whole` piece `piece` of `pieces` moves; cuts by operand. UNIMPLEMENTED where runs are
// not a rank's heads, on every rank alike.
Result<std::vector<TransferPlan>> piece_of(const std::vector<TransferPlan>& whole,
                                           const std::vector<Cut>& cuts, std::int64_t pieces,
                                           std::int64_t piece) {
  std::vector<TransferPlan> plans(whole.size());
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    if (!whole[rank].copies.empty() || !whole[rank].fills.empty()) {
      return unimplemented("heads that a rank holds several times");
    }
    const auto take = [&](const std::vector<std::vector<Region>>& from, bool is_target,
                          std::vector<std::vector<Region>>* to) -> Status {
      for (const std::vector<Region>& regions : from) {
        to->emplace_back();
        for (Region region : regions) {
          const Cut& cut = cuts[static_cast<std::size_t>(region.buffer)];
          if (region.run != cut.run) {
            return unimplemented("runs of ", region.run, " bytes where heads have ", cut.run);
          }
          const std::int64_t every = pieces / cut.parts;
          if (piece % every != 0) continue;
          region.run = cut.run / cut.parts;
          region.offset +=
              static_cast<std::size_t>(piece / every * region.run + (is_target ? cut.shift : 0));
          to->back().push_back(std::move(region));
        }
      }
      return {};
    };
    TransferPlan& plan = plans[rank];
    TUTTI_RETURN_IF_ERROR(take(whole[rank].exchange.send, false, &plan.exchange.send));
    TUTTI_RETURN_IF_ERROR(take(whole[rank].exchange.receive, true, &plan.exchange.receive));
  }
  return plans;
}

std::int64_t received_bytes(const TransferPlan& plan) {
  std::int64_t bytes = 0;
  for (const std::vector<Region>& regions : plan.exchange.receive) {
    for (const Region& region : regions) bytes += region.byte_size();
  }
  return bytes;
}

std::int64_t num_pieces(const AttentionProblem& p, std::int64_t ranks, Pipelining asked) {
  const std::int64_t bytes = p.batch * p.queries * (p.heads + p.kv_heads) * (p.qk_size + p.v_size) *
                             static_cast<std::int64_t>(dtype_size(p.dtype)) * (ranks - 1) / ranks;
  const std::int64_t tiles = (p.queries + kQueryTile - 1) / kQueryTile * p.heads * p.batch;
  for (const std::int64_t pieces : {4, 2}) {
    const bool fits = p.heads % pieces == 0 &&
                      (p.kv_heads % pieces == 0 || (p.kv_heads > 0 && pieces % p.kv_heads == 0));
    const bool pays = bytes >= kLeastBytes && tiles / pieces >= kLeastTiles;
    if (fits && (pays || asked == Pipelining::kAlways)) return pieces;
  }
  return 1;
}

class PipelinedAttention final : public Kernel {
 public:
  PipelinedAttention(RankContext& context, Lanes& lanes) : context_(context), lanes_(lanes) {}

  Status set_up(const KernelSpec& spec) {
    TUTTI_ASSIGN_OR_RETURN(const PipelineBody body, PipelineBody::read(spec));
    TUTTI_ASSIGN_OR_RETURN(problem_, body.with_spec(body.attention(), [](const KernelSpec& inner) {
      return read_attention(inner, inner.inputs[1].dims, inner.inputs[2].dims);
    }));
    const AttentionProblem& p = problem_;
    if (body.attention().attr_string("layout") != "bshd" || p.has_mask() || p.has_lengths) {
      return unimplemented("only attention without masks over tokens of heads is pipelined");
    }
    TUTTI_ASSIGN_OR_RETURN(const ExchangePlans in,
                           body.with_spec(body.arrival(), [&](const KernelSpec& inner) {
                             return exchange_plans(inner, context_);
                           }));
    TUTTI_ASSIGN_OR_RETURN(const ExchangePlans out,
                           body.with_spec(body.departure(), [&](const KernelSpec& inner) {
                             return exchange_plans(inner, context_);
                           }));
    if (in.communicator == nullptr || in.operands.size() != kOperands) {
      return unimplemented("no exchange of queries, keys and values");
    }
    // All ranks find the same.
    const auto received = [&](std::size_t rank) { return received_bytes(in.plans[rank]); };
    for (std::size_t rank = 0; rank < in.plans.size(); ++rank) {
      if (received(rank) == 0 || received(rank) != received(0)) {
        return unimplemented("ranks with different numbers of heads, or nothing to attend");
      }
    }
    pieces_ = num_pieces(p, in.communicator->size(), context_.pipelining);
    if (pieces_ == 1 && !context_.fuses_exchanges) return unimplemented("too little to pipeline");
    body_ = spec.node.attr_graph("body");
    producers_.emplace(body.producers(spec));
    TUTTI_RETURN_IF_ERROR(lay_out(body));
    TUTTI_RETURN_IF_ERROR(make_transfers(in, out, body.has_producers()));
    return make_attentions(out);
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  Status run(const KernelArgs& args) override {
    Status status = run_pieces(args);
    if (status.ok()) return {};
    // Whoever hears of the error waits for the rank's stream alone.
    for (RankContext& lane : lanes_.computing) {
      (void)follow(context_.stream, *lanes_.ended, lane.stream);
    }
    (void)follow(context_.stream, *lanes_.ended, lanes_.exchanging.stream);
    (void)cudaGetLastError();
    return status;
  }

 private:
  // Places in the workspace, and how each operand is cut.
  Status lay_out(const PipelineBody& body) {
    in_cuts_.resize(kOperands);
    targets_.resize(kOperands);
    std::vector<bool> is_taken(kOperands, false);
    for (std::size_t i = 0; i < kOperands; ++i) {
      TUTTI_ASSIGN_OR_RETURN(operands_[i], body.operand(i));
      const std::size_t exchanged = operands_[i].exchanged;
      if (is_taken[exchanged]) return unimplemented("an operand that is attended to twice");
      is_taken[exchanged] = true;
      const std::int64_t run = body.token_bytes(body.attention().input(i));
      const std::int64_t heads = i == 0 ? problem_.heads : problem_.kv_heads;
      in_cuts_[exchanged] = {run, std::min(pieces_, heads), operands_[i].first_token * run};
      places_[i] = add(operands_[i].bytes);
    }
    const Value* result = body.attention().output();
    out_cuts_ = {{body.token_bytes(result), pieces_, 0}};
    places_[kOperands] = add(body.desc(result).byte_size());
    return {};
  }

  std::size_t add(std::size_t bytes) {
    const std::size_t place = workspace_bytes_;
    workspace_bytes_ += aligned(bytes);
    return place;
  }

  Status make_transfers(const ExchangePlans& in, const ExchangePlans& out, bool has_producers) {
    std::vector<std::vector<TransferPlan>> arriving;
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      TUTTI_ASSIGN_OR_RETURN(auto there, piece_of(in.plans, in_cuts_, pieces_, piece));
      arriving.push_back(std::move(there));
    }
    if (has_producers) {
      TUTTI_RETURN_IF_ERROR(producers_->make_rows(lanes_.exchanging, in, arriving));
      TUTTI_RETURN_IF_ERROR(producers_->make_apart(context_));
      producers_place_ = add(producers_->workspace_bytes());
    }
    std::vector<std::vector<TransferPlan>> leaving;
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      const auto round = static_cast<std::size_t>(piece);
      TUTTI_ASSIGN_OR_RETURN(Transfer arrival,
                             Transfer::create(lanes_.exchanging, in.communicator, arriving[round],
                                              kOperands, producers_->routed()));
      arrivals_.push_back(std::move(arrival));
      writers_.emplace_back([this, round](std::span<const void* const> targets) {
        return producers_->write(round, targets);
      });
      TUTTI_ASSIGN_OR_RETURN(auto back, piece_of(out.plans, out_cuts_, pieces_, piece));
      leaving.push_back(std::move(back));
    }
    TUTTI_ASSIGN_OR_RETURN(AttentionReturn made,
                           AttentionReturn::create(lanes_.exchanging, out, leaving));
    return_.emplace(std::move(made));
    results_.resize(out.plans.size());
    return {};
  }

  Status make_attentions(const ExchangePlans& out) {
    AttentionProblem piece = problem_;
    piece.heads = problem_.heads / pieces_;
    piece.kv_heads = std::max<std::int64_t>(problem_.kv_heads / pieces_, 1);
    for (std::size_t i = 0; i < Lanes::kComputing; ++i) {
      TUTTI_ASSIGN_OR_RETURN(AttentionWays attention, make_attention(piece, lanes_.computing[i]));
      scratch_[i] = add(attention.workspace_bytes());
      attentions_.push_back(std::move(attention));
    }
    TUTTI_RETURN_IF_ERROR(make_direct(piece, out));
    const auto width = static_cast<std::int64_t>(dtype_size(problem_.dtype));
    steps_ = {problem_.heads / pieces_ * problem_.qk_size * width, problem_.qk_size * width,
              problem_.v_size * width, problem_.heads / pieces_ * problem_.v_size * width};
    return {};
  }

  // Attentions that write to the ranks themselves, where that is possible.
  Status make_direct(AttentionProblem piece, const ExchangePlans& out) {
    if (!context_.fuses_exchanges) return {};
    const auto self = static_cast<std::size_t>(out.communicator->rank());
    auto places = places_of_results(problem_, out.plans, self);
    if (!places.ok()) {
      return places.status().code() == StatusCode::kUnimplemented ? Status() : places.status();
    }
    piece.places = *std::move(places);
    for (std::size_t i = 0; i < Lanes::kComputing; ++i) {
      auto attention = make_attention(piece, lanes_.computing[i]);
      if (!attention.ok()) {
        return attention.status().code() == StatusCode::kUnimplemented ? Status()
                                                                       : attention.status();
      }
      direct_.push_back(*std::move(attention));
    }
    return {};
  }

  // Whether the way that was chosen for the lane's attention writes to the ranks itself.
  bool is_direct(std::size_t lane) const {
    const auto& chosen = attentions_[lane].ways();
    return lane < direct_.size() && chosen.size() == 1 &&
           chosen.front()->name() == direct_[lane].ways().front()->name();
  }

  // The first head of a piece, in bytes from the operand's.
  std::size_t offset(std::size_t operand, std::int64_t piece) const {
    const bool is_of_keys = operand == 1 || operand == 2;
    const std::int64_t steps = is_of_keys ? piece * problem_.kv_heads / pieces_ : piece;
    return static_cast<std::size_t>(steps * steps_[operand]);
  }

  Status run_pieces(const KernelArgs& args) {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    TUTTI_RETURN_IF_ERROR(producers_->begin(args.inputs, workspace + producers_place_));
    for (std::size_t i = 0; i < kOperands; ++i) {
      targets_[operands_[i].exchanged] = workspace + places_[i];
      for (const PipelineOperand::Other& other : operands_[i].others) {
        TUTTI_CUDA(cudaMemcpyAsync(workspace + places_[i] + other.offset, args.inputs[other.input],
                                   other.bytes, cudaMemcpyDeviceToDevice, context_.stream));
      }
    }
    cudaStream_t exchanging = lanes_.exchanging.stream;
    TUTTI_RETURN_IF_ERROR(follow(exchanging, *lanes_.begun, context_.stream));
    for (RankContext& lane : lanes_.computing) {
      TUTTI_CUDA(cudaStreamWaitEvent(lane.stream, lanes_.begun->get(), 0));
    }
    const auto count = static_cast<std::size_t>(pieces_);
    for (std::size_t piece = 0; piece < count; ++piece) {
      TUTTI_RETURN_IF_ERROR(arrivals_[piece].run(producers_->sources(), targets_, writers_[piece]));
      if (piece == 0) TUTTI_RETURN_IF_ERROR(return_->open(args.outputs[0]));
      TUTTI_RETURN_IF_ERROR(follow(lane_of(piece).stream, *lanes_.arrived[piece], exchanging));
    }
    for (std::size_t piece = 0; piece < count; ++piece) {
      const bool is_sent = is_direct(piece % Lanes::kComputing);
      TUTTI_RETURN_IF_ERROR(attend(piece, is_sent, workspace));
      TUTTI_RETURN_IF_ERROR(follow(exchanging, *lanes_.computed[piece], lane_of(piece).stream));
      if (!is_sent) TUTTI_RETURN_IF_ERROR(return_->copy(piece, workspace + places_[kOperands]));
    }
    TUTTI_RETURN_IF_ERROR(return_->close());
    return follow(context_.stream, *lanes_.ended, exchanging);
  }

  Status attend(std::size_t piece, bool is_sent, std::byte* workspace) {
    const auto at = [&](std::size_t operand) {
      return workspace + places_[operand] + offset(operand, static_cast<std::int64_t>(piece));
    };
    const std::size_t lane = piece % Lanes::kComputing;
    AttentionAddresses to;
    to.q = at(0);
    to.k = at(1);
    to.v = at(2);
    to.out = at(kOperands);
    to.workspace = workspace + scratch_[lane];
    if (!is_sent) return attentions_[lane].run(to);
    const std::size_t shift = offset(kOperands, static_cast<std::int64_t>(piece));
    std::transform(return_->targets().begin(), return_->targets().end(), results_.begin(),
                   [&](void* target) { return static_cast<std::byte*>(target) + shift; });
    to.targets = results_;
    return direct_[lane].run(to);
  }

  RankContext& lane_of(std::size_t piece) { return lanes_.computing[piece % Lanes::kComputing]; }

  RankContext& context_;
  Lanes& lanes_;
  AttentionProblem problem_;
  std::int64_t pieces_ = 1;
  std::shared_ptr<const Graph> body_;
  std::optional<ExchangeProducers> producers_;  // of the first exchange's operands
  std::size_t producers_place_ = 0;             // of their results, in the workspace
  std::array<PipelineOperand, kOperands> operands_;
  std::vector<Cut> in_cuts_;  // by operand of the exchange
  std::vector<Cut> out_cuts_;
  std::array<std::size_t, kOperands + 1> places_{};  // of operands and the result
  std::array<std::size_t, Lanes::kComputing> scratch_{};
  std::array<std::int64_t, kOperands + 1> steps_{};  // bytes of a piece, or of a key's head
  std::size_t workspace_bytes_ = 0;
  std::vector<Transfer> arrivals_;
  std::vector<Transfer::Writer> writers_;  // of arrivals' rows
  std::optional<AttentionReturn> return_;
  std::vector<AttentionWays> attentions_;  // by lane
  std::vector<AttentionWays> direct_;      // by lane, or none
  std::vector<void*> results_;             // a piece's first heads, by rank; scratch
  std::vector<void*> targets_;             // by operand of the exchange
};

KernelResult make_pipelined_attention(const KernelSpec& spec, RankContext& context) {
  if (context.pipelining == Pipelining::kNever || context.exchange_way != ExchangeWay::kPush) {
    return unimplemented("exchanges are not pipelined here");
  }
  TUTTI_ASSIGN_OR_RETURN(Lanes * lanes, lanes_of(context));
  auto kernel = std::make_unique<PipelinedAttention>(context, *lanes);
  TUTTI_RETURN_IF_ERROR(kernel->set_up(spec));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

void register_pipelined_attention(KernelTable* table) {
  table->add("PipelinedAttention", make_pipelined_attention);
}

}  // namespace tutti::cuda
