// PipelinedAttention: the ranks' tokens become heads piece by piece, and while one piece of the
// heads is attended to, the next one arrives and the last one goes back (the scheme of DeepSpeed
// Ulysses, Jacobs et al. 2023, whose exchanges this hides behind the attention).
#include <algorithm>
#include <array>
#include <unordered_map>

#include "backends/cuda/attention.h"
#include "backends/cuda/exchange_kernels.h"
#include "backends/cuda/exchange_producers.h"
#include "backends/cuda/lanes.h"
#include "backends/cuda/transfer.h"
#include "backends/cuda/workspace.h"
#include "runtime/storage.h"

namespace tutti::cuda {
namespace {

// Less than this is not worth more launches. By the shape alone: all ranks must find the same.
constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;  // that a rank sends and receives
constexpr std::int64_t kQueryTile = 128;
constexpr std::int64_t kLeastTiles = 512;  // of queries in a piece, so that they fill the card

constexpr std::size_t kOperands = 3;  // queries, keys, values

// Where an operand of the attention comes from.
struct Operand {
  std::size_t exchanged = 0;     // result of the exchange
  std::int64_t first_token = 0;  // of that in the operand
  std::size_t bytes = 0;
  struct Other {
    std::size_t input = 0;  // of the node
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  std::vector<Other> others;  // what else the operand consists of
};

// The nodes of the body with what their kernels are made from.
class Body {
 public:
  static Result<Body> read(const KernelSpec& spec) {
    Body body(spec);
    TUTTI_ASSIGN_OR_RETURN(body.descs_, describe_values(*body.graph_, spec.symbols));
    for (const auto& node : body.graph_->nodes()) body.nodes_.push_back(node.get());
    const auto& nodes = body.nodes_;
    const auto arrival = std::find_if(nodes.begin(), nodes.end(),
                                      [](const Node* node) { return node->op().is_exchange; });
    if (nodes.end() - arrival < 3) return invalid_argument("the body is no pipeline");
    body.arrival_ = *arrival;
    return body;
  }

  const Node& arrival() const { return *arrival_; }
  // Whether something in the body computes what the first exchange moves.
  bool has_producers() const { return arrival_ != nodes_.front(); }
  ExchangeProducers producers(const KernelSpec& spec) const {
    return ExchangeProducers(spec, *graph_, *arrival_, descs_);
  }
  const Node& attention() const { return *nodes_[nodes_.size() - 2]; }
  const Node& departure() const { return *nodes_.back(); }
  const TensorDesc& desc(const Value* value) const { return descs_.at(value); }

  // A function of the node's spec.
  template <class F>
  auto with_spec(const Node& node, F&& f) const {
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    for (const Value* x : node.inputs()) inputs.push_back(x == nullptr ? TensorDesc() : desc(x));
    for (const Value* y : node.outputs()) outputs.push_back(desc(y));
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    return f(KernelSpec{node, inputs, outputs, constants, symbols_});
  }

  Result<Operand> operand(std::size_t i) const {
    const Value* value = attention().input(i);
    Operand operand;
    operand.bytes = desc(value).byte_size();
    if (is_exchanged(value, &operand)) return operand;
    const Node* concat = value->producer();
    if (concat == nullptr || concat->type() != "Concat" || concat->attr_int("axis") != 1 ||
        desc(value).dims[0] != 1) {
      return unimplemented("operand ", i, " is not put together of tokens");
    }
    std::size_t offset = 0;
    std::size_t found = 0;
    for (const Value* part : concat->inputs()) {
      if (is_exchanged(part, &operand)) {
        ++found;
        operand.first_token = static_cast<std::int64_t>(offset) / token_bytes(value);
      } else if (part->is_input()) {
        const auto& inputs = graph_->inputs();
        const auto at = std::find(inputs.begin(), inputs.end(), part) - inputs.begin();
        operand.others.push_back({static_cast<std::size_t>(at), offset, desc(part).byte_size()});
      } else {
        return unimplemented("a part of operand ", i, " is computed in between");
      }
      offset += desc(part).byte_size();
    }
    if (found != 1) return unimplemented(found, " parts of operand ", i, " are exchanged");
    return operand;
  }

  std::int64_t token_bytes(const Value* value) const {
    const TensorDesc& d = desc(value);
    return d.dims[2] * d.dims[3] * static_cast<std::int64_t>(dtype_size(d.dtype));
  }

 private:
  explicit Body(const KernelSpec& spec)
      : symbols_(spec.symbols), graph_(spec.node.attr_graph("body")) {}

  bool is_exchanged(const Value* value, Operand* operand) const {
    if (value->producer() != &arrival()) return false;
    operand->exchanged = static_cast<std::size_t>(value->producer_output());
    return true;
  }

  const SymbolMap& symbols_;
  std::shared_ptr<const Graph> graph_;
  std::unordered_map<const Value*, TensorDesc> descs_;
  std::vector<const Node*> nodes_;
  const Node* arrival_ = nullptr;
};

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
    TUTTI_ASSIGN_OR_RETURN(const Body body, Body::read(spec));
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
    pieces_ = num_pieces(p, in.communicator->size(), context_.pipelining);
    if (pieces_ == 1) return unimplemented("too little to pipeline");
    body_ = spec.node.attr_graph("body");
    producers_.emplace(body.producers(spec));
    TUTTI_RETURN_IF_ERROR(lay_out(body));
    TUTTI_RETURN_IF_ERROR(make_transfers(in, out, body.has_producers()));
    return make_attentions();
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
  Status lay_out(const Body& body) {
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
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      const auto round = static_cast<std::size_t>(piece);
      TUTTI_ASSIGN_OR_RETURN(Transfer arrival,
                             Transfer::create(lanes_.exchanging, in.communicator, arriving[round],
                                              kOperands, producers_->routed()));
      arrivals_.push_back(std::move(arrival));
      writers_.emplace_back([this, round](std::span<const void* const> targets) {
        return producers_->write(round, targets);
      });
      TUTTI_ASSIGN_OR_RETURN(const auto back, piece_of(out.plans, out_cuts_, pieces_, piece));
      TUTTI_ASSIGN_OR_RETURN(Transfer departure,
                             Transfer::create(lanes_.exchanging, out.communicator, back, 1));
      departures_.push_back(std::move(departure));
    }
    return {};
  }

  Status make_attentions() {
    AttentionProblem piece = problem_;
    piece.heads = problem_.heads / pieces_;
    piece.kv_heads = std::max<std::int64_t>(problem_.kv_heads / pieces_, 1);
    for (std::size_t i = 0; i < Lanes::kComputing; ++i) {
      TUTTI_ASSIGN_OR_RETURN(AttentionWays attention, make_attention(piece, lanes_.computing[i]));
      scratch_[i] = add(attention.workspace_bytes());
      attentions_.push_back(std::move(attention));
    }
    const auto width = static_cast<std::int64_t>(dtype_size(problem_.dtype));
    steps_ = {problem_.heads / pieces_ * problem_.qk_size * width, problem_.qk_size * width,
              problem_.v_size * width, problem_.heads / pieces_ * problem_.v_size * width};
    return {};
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
      for (const Operand::Other& other : operands_[i].others) {
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
      TUTTI_RETURN_IF_ERROR(follow(lane_of(piece).stream, *lanes_.arrived[piece], exchanging));
    }
    for (std::size_t piece = 0; piece < count; ++piece) {
      TUTTI_RETURN_IF_ERROR(attend(piece, workspace));
      TUTTI_RETURN_IF_ERROR(follow(exchanging, *lanes_.computed[piece], lane_of(piece).stream));
      const void* const sources[] = {workspace + places_[kOperands]};
      TUTTI_RETURN_IF_ERROR(departures_[piece].run(sources, args.outputs));
    }
    return follow(context_.stream, *lanes_.ended, exchanging);
  }

  Status attend(std::size_t piece, std::byte* workspace) {
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
    return attentions_[lane].run(to);
  }

  RankContext& lane_of(std::size_t piece) { return lanes_.computing[piece % Lanes::kComputing]; }

  RankContext& context_;
  Lanes& lanes_;
  AttentionProblem problem_;
  std::int64_t pieces_ = 1;
  std::shared_ptr<const Graph> body_;
  std::optional<ExchangeProducers> producers_;  // of the first exchange's operands
  std::size_t producers_place_ = 0;             // of their results, in the workspace
  std::array<Operand, kOperands> operands_;
  std::vector<Cut> in_cuts_;  // by operand of the exchange
  std::vector<Cut> out_cuts_;
  std::array<std::size_t, kOperands + 1> places_{};  // of operands and the result
  std::array<std::size_t, Lanes::kComputing> scratch_{};
  std::array<std::int64_t, kOperands + 1> steps_{};  // bytes of a piece, or of a key's head
  std::size_t workspace_bytes_ = 0;
  std::vector<Transfer> arrivals_;
  std::vector<Transfer::Writer> writers_;  // of arrivals' rows
  std::vector<Transfer> departures_;
  std::vector<AttentionWays> attentions_;  // by lane
  std::vector<void*> targets_;             // by operand of the exchange
};

KernelResult make_pipelined_attention(const KernelSpec& spec, RankContext& context) {
  if (context.pipelining == Pipelining::kNever || context.exchange_way == ExchangeWay::kNccl) {
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
