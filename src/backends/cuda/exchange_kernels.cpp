// Exchanges between the ranks of one mesh axis. src/comm/transfer_plan.h knows what travels; one
// kernel a rank writes its boxes into the others' memory, or reads them there.
#include "backends/cuda/exchange_kernels.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/kernels.h"
#include "backends/cuda/transfer.h"
#include "comm/window_fill.h"
#include "runtime/exchange_operands.h"

namespace tutti::cuda {
namespace {

// The rank's communicator along the node's axis; null when it is the only one.
Result<std::shared_ptr<Communicator>> communicator_of(const Node& node,
                                                      const RankContext& context) {
  const std::string axis = node.attr_string("axis");
  const auto ranks = static_cast<int>(node.attr_int("ranks"));
  for (std::size_t i = 0; i < context.axes.size() && i < context.communicators.size(); ++i) {
    if (context.axes[i] != axis) continue;
    const std::shared_ptr<Communicator>& communicator = context.communicators[i];
    const int size = communicator == nullptr ? 1 : communicator->size();
    if (size != ranks) {
      return invalid_argument("mesh axis '", axis, "' has ", size, " ranks here, expected ", ranks);
    }
    return communicator;
  }
  return invalid_argument("mesh axis '", axis, "' is unknown here; the axes are ", context.axes);
}

// A rank's plan as a function of the rank: the sender's side of a region is in the sender's plan.
template <class F>
Result<std::vector<TransferPlan>> plans_of_all(int ranks, F&& plan_of) {
  std::vector<TransferPlan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    TUTTI_ASSIGN_OR_RETURN(TransferPlan plan, plan_of(rank));
    plans.push_back(std::move(plan));
  }
  return plans;
}

int size_of(const std::shared_ptr<Communicator>& communicator) {
  return communicator == nullptr ? 1 : communicator->size();
}
int rank_of(const std::shared_ptr<Communicator>& communicator) {
  return communicator == nullptr ? 0 : communicator->rank();
}

// Writes one number over regions of a target: copies out of a row of it.
class Fill {
 public:
  static Result<Fill> create(RankContext& context, const std::vector<Region>& regions,
                             const std::vector<std::byte>& number) {
    Fill fill;
    std::int64_t longest = 0;
    std::vector<BoxCopies::Box> boxes;
    for (const Region& region : regions) {
      Region row = region;
      row.offset = 0;
      std::fill(row.strides.begin(), row.strides.end(), 0);
      longest = std::max(longest, region.run);
      boxes.push_back({std::move(row), 0, region, 1});
    }
    if (longest == 0) return fill;
    std::vector<std::byte> row;
    while (std::ssize(row) < longest) row.insert(row.end(), number.begin(), number.end());
    TUTTI_ASSIGN_OR_RETURN(fill.row_, context.place(row.data(), row.size()));
    TUTTI_ASSIGN_OR_RETURN(fill.copies_, BoxCopies::create(context, boxes, 2));
    return fill;
  }

  Status run(void* target) {
    if (row_ == nullptr) return {};
    const void* addresses[] = {row_->data(), target, nullptr};
    return copies_.run(addresses);
  }

 private:
  std::shared_ptr<DeviceMemory> row_;
  BoxCopies copies_;
};

// The piece of a value that every rank has: nobody else takes part.
KernelResult make_cut(const KernelSpec& spec, RankContext& context,
                      const std::shared_ptr<Communicator>& communicator,
                      const TransferOperand& operand) {
  const int rank = rank_of(communicator);
  TUTTI_ASSIGN_OR_RETURN(const TransferPlan plan,
                         make_transfer_plan({&operand, 1}, size_of(communicator), rank));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, size_of(communicator), rank_of(communicator)));
  const auto self = static_cast<std::size_t>(rank);
  std::vector<BoxCopies::Box> pieces;
  for (std::size_t i = 0; i < plan.exchange.send[self].size(); ++i) {
    pieces.push_back({plan.exchange.send[self][i], 0, plan.exchange.receive[self][i], 1});
  }
  std::vector<BoxCopies::Box> repeats;
  for (const LocalCopy& copy : plan.copies) repeats.push_back({copy.from, 1, copy.to, 1});
  const WindowEdge edge = operand.to->window ? operand.to->window->edge : WindowEdge::kZero;
  TUTTI_ASSIGN_OR_RETURN(const auto number, edge_number(edge, spec.inputs[0].dtype));
  TUTTI_ASSIGN_OR_RETURN(BoxCopies cut, BoxCopies::create(context, pieces, 2));
  TUTTI_ASSIGN_OR_RETURN(BoxCopies repeat, BoxCopies::create(context, repeats, 2));
  TUTTI_ASSIGN_OR_RETURN(Fill fill, Fill::create(context, plan.fills, number));
  return make_lambda_kernel([cut = std::move(cut), repeat = std::move(repeat),
                             fill = std::move(fill)](const KernelArgs& args) mutable {
    const void* addresses[] = {args.inputs[0], args.outputs[0], nullptr};
    TUTTI_RETURN_IF_ERROR(cut.run(addresses));
    TUTTI_RETURN_IF_ERROR(repeat.run(addresses));
    return fill.run(args.outputs[0]);
  });
}

KernelResult make_shard_slice(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const PieceSplit split, split_of(spec));
  const TensorDesc& x = spec.inputs[0];
  TUTTI_RETURN_IF_ERROR(check_dim(split.dim, x));
  return make_cut(spec, context, communicator, {x.dims, dtype_size(x.dtype), std::nullopt, split});
}

// Halo. Rows of the neighbours come along; then what lies beyond the tensor's edge.
KernelResult make_halo(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const TransferOperand operand, window_operand(spec));
  const int ranks = size_of(communicator);
  TUTTI_ASSIGN_OR_RETURN(const auto plans, plans_of_all(ranks, [&](int rank) {
                           return make_transfer_plan({&operand, 1}, ranks, rank);
                         }));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, size_of(communicator), rank_of(communicator)));
  TUTTI_ASSIGN_OR_RETURN(const auto number,
                         edge_number(operand.to->window->edge, spec.inputs[0].dtype));
  const auto self = static_cast<std::size_t>(rank_of(communicator));
  TUTTI_ASSIGN_OR_RETURN(Transfer transfer, Transfer::create(context, communicator, plans, 1));
  TUTTI_ASSIGN_OR_RETURN(Fill fill, Fill::create(context, plans[self].fills, number));
  return make_lambda_kernel(
      [transfer = std::move(transfer), fill = std::move(fill)](const KernelArgs& args) mutable {
        TUTTI_RETURN_IF_ERROR(transfer.run(args.inputs, args.outputs));
        return fill.run(args.outputs[0]);
      });
}

KernelResult make_window_slice(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const TransferOperand operand, window_operand(spec));
  return make_cut(spec, context, communicator, operand);
}

// AllToAll, AllGather.
KernelResult make_exchange(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const ExchangePlans all, exchange_plans(spec, context));
  TUTTI_ASSIGN_OR_RETURN(Transfer transfer, Transfer::create(context, all.communicator, all.plans,
                                                             all.operands.size()));
  return make_lambda_kernel([transfer = std::move(transfer)](const KernelArgs& args) mutable {
    return transfer.run(args.inputs, args.outputs);
  });
}

int op_number(const Node& node) {
  const std::string op = node.attr_string("op", "sum");
  return op == "max" ? 1 : op == "min" ? 2 : 0;
}

// Addresses: every rank's contribution, then the result.
Result<GeneratedKernel> make_rank_reduction(RankContext& context, const Node& node, int ranks,
                                            const TensorDesc& desc) {
  if (desc.dtype == DType::kBool) {
    return invalid_argument("a reduction takes numbers, not ", dtype_name(desc.dtype));
  }
  const std::int64_t count = desc.element_count();
  KernelSource source;
  source.entry = "reduce_ranks";
  source.files = {"pointwise.cuh", "all_reduce.cuh"};
  define_index(needs_wide_index({count}), &source);
  source.defines.emplace_back("T", type_name(desc.dtype));
  source.defines.emplace_back("RANKS", std::to_string(ranks));
  source.defines.emplace_back("OP", std::to_string(op_number(node)));
  return GeneratedKernel::create(context, std::move(source), static_cast<std::size_t>(ranks) + 1,
                                 {count}, grid_for(context, count));
}

// Every contribution goes to every rank, which reduces them in order.
Result<std::vector<TransferPlan>> copies_to_all(int ranks, std::size_t bytes) {
  return plans_of_all(ranks, [&](int) -> Result<TransferPlan> {
    TransferPlan plan;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(ranks); ++peer) {
      const auto run = static_cast<std::int64_t>(bytes);
      plan.exchange.send.push_back({{0, 0, {}, {}, run}});
      plan.exchange.receive.push_back({{0, peer * bytes, {}, {}, run}});
    }
    return plan;
  });
}

// Contributions that `plans` bring into the workspace, one after the other, become the output.
KernelResult make_gathered_reduction(const KernelSpec& spec, RankContext& context,
                                     const std::shared_ptr<Communicator>& communicator,
                                     const std::vector<TransferPlan>& plans) {
  const auto ranks = static_cast<int>(plans.size());
  const TensorDesc& piece = spec.outputs[0];
  TUTTI_ASSIGN_OR_RETURN(Transfer transfer, Transfer::create(context, communicator, plans, 1));
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         make_rank_reduction(context, spec.node, ranks, piece));
  const std::size_t bytes = piece.byte_size();
  std::vector<const void*> addresses(static_cast<std::size_t>(ranks) + 1);
  return make_lambda_kernel(
      [transfer = std::move(transfer), kernel = std::move(kernel), addresses = std::move(addresses),
       bytes](const KernelArgs& args) mutable {
        void* const targets[] = {args.workspace};
        TUTTI_RETURN_IF_ERROR(transfer.run(args.inputs, targets));
        if (bytes == 0) return Status();
        for (std::size_t i = 0; i + 1 < addresses.size(); ++i) {
          addresses[i] = static_cast<const std::byte*>(args.workspace) + i * bytes;
        }
        addresses.back() = args.outputs[0];
        return kernel.run(addresses);
      },
      bytes * static_cast<std::size_t>(ranks));
}

KernelResult make_all_reduce(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  if (communicator != nullptr && context.exchange_way == ExchangeWay::kNccl) {
    TUTTI_ASSIGN_OR_RETURN(const auto plans,
                           copies_to_all(communicator->size(), spec.inputs[0].byte_size()));
    return make_gathered_reduction(spec, context, communicator, plans);
  }
  Meeting meeting(context, communicator, 1);
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         make_rank_reduction(context, spec.node, meeting.size(), spec.inputs[0]));
  std::vector<const void*> addresses(static_cast<std::size_t>(meeting.size()) + 1);
  return make_lambda_kernel(
      [meeting = std::move(meeting), kernel = std::move(kernel), addresses = std::move(addresses),
       bytes =
           static_cast<std::int64_t>(spec.inputs[0].byte_size())](const KernelArgs& args) mutable {
        TUTTI_RETURN_IF_ERROR(meeting.open({args.inputs.data(), 1}));
        meeting.add_sent(bytes * (meeting.size() - 1));
        for (int rank = 0; rank < meeting.size(); ++rank) {
          addresses[static_cast<std::size_t>(rank)] = meeting.buffer(rank, 0);
        }
        addresses.back() = args.outputs[0];
        if (bytes > 0) TUTTI_RETURN_IF_ERROR(kernel.run(addresses));
        return meeting.close();
      });
}

// Gathers every rank's contribution to its own piece in the workspace and reduces them in order.
KernelResult make_reduce_scatter(const KernelSpec& spec, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const PieceSplit split, split_of(spec));
  const TensorDesc& x = spec.inputs[0];
  TUTTI_RETURN_IF_ERROR(check_dim(split.dim, x));
  const int ranks = size_of(communicator);
  const TransferOperand operand{x.dims, dtype_size(x.dtype), std::nullopt, split};
  TUTTI_ASSIGN_OR_RETURN(const auto plans, plans_of_all(ranks, [&](int rank) {
                           return reduce_scatter_plan(x.dims, operand.element_size, split, ranks,
                                                      rank);
                         }));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, size_of(communicator), rank_of(communicator)));
  return make_gathered_reduction(spec, context, communicator, plans);
}

class TransferGather final : public PieceGather {
 public:
  explicit TransferGather(Transfer transfer) : transfer_(std::move(transfer)) {}
  Status run(std::span<const void* const> sources, std::span<void* const> targets) override {
    return transfer_.run(sources, targets);
  }

 private:
  Transfer transfer_;
};

}  // namespace

Result<std::unique_ptr<PieceGather>> make_piece_gather(const Node& node, RankContext& context,
                                                       std::span<const TensorDesc> pieces, int dim,
                                                       std::int64_t size, const Dims& segments) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(node, context));
  std::vector<TransferOperand> operands;
  for (const TensorDesc& piece : pieces) {
    TUTTI_RETURN_IF_ERROR(check_dim(dim, piece));
    TransferOperand operand;
    operand.dims = piece.dims;
    operand.dims[static_cast<std::size_t>(dim)] = size;
    operand.element_size = dtype_size(piece.dtype);
    operand.from = PieceSplit{dim, size, 1};
    operands.push_back(std::move(operand));
  }
  const int ranks = size_of(communicator);
  TUTTI_ASSIGN_OR_RETURN(const auto plans, plans_of_all(ranks, [&](int rank) {
                           return segments.empty()
                                      ? make_transfer_plan(operands, ranks, rank)
                                      : joined_gather_plan(operands, segments, ranks, rank);
                         }));
  TUTTI_ASSIGN_OR_RETURN(Transfer transfer,
                         Transfer::create(context, communicator, plans, operands.size()));
  return std::unique_ptr<PieceGather>(std::make_unique<TransferGather>(std::move(transfer)));
}

Result<ExchangePlans> exchange_plans(const KernelSpec& spec, const RankContext& context) {
  ExchangePlans all;
  TUTTI_ASSIGN_OR_RETURN(all.communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(all.operands, spec.node.type() == "AllGather" ? gather_operands(spec)
                                                                       : all_to_all_operands(spec));
  const int ranks = size_of(all.communicator);
  TUTTI_ASSIGN_OR_RETURN(all.plans, plans_of_all(ranks, [&](int rank) {
                           return make_transfer_plan(all.operands, ranks, rank);
                         }));
  TUTTI_RETURN_IF_ERROR(check_sizes(spec, all.operands, ranks, rank_of(all.communicator)));
  return all;
}

void register_exchange_kernels(KernelTable* table) {
  table->add("ShardSlice", make_shard_slice);
  table->add("WindowSlice", make_window_slice);
  table->add("Halo", make_halo);
  table->add("AllGather", make_exchange);
  table->add("AllToAll", make_exchange);
  table->add("AllReduce", make_all_reduce);
  table->add("ReduceScatter", make_reduce_scatter);
}

}  // namespace tutti::cuda
