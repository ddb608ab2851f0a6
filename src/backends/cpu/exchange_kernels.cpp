// Exchanges along one mesh axis. src/comm/transfer_plan.h knows what travels, the rank's
// communicator how.
#include "backends/cpu/exchange_kernels.h"

#include <cstring>
#include <optional>

#include "backends/cpu/kernels.h"
#include "comm/copy.h"
#include "comm/local.h"
#include "comm/reduce.h"
#include "comm/transfer_plan.h"
#include "comm/window_fill.h"
#include "runtime/exchange_operands.h"

namespace tutti::cpu {

Result<std::shared_ptr<Communicator>> communicator_of(const Node& node, const CpuContext& context) {
  const std::string axis = node.attr_string("axis");
  const auto ranks = static_cast<int>(node.attr_int("ranks"));
  for (std::size_t i = 0; i < context.axes.size() && i < context.communicators.size(); ++i) {
    if (context.axes[i] != axis) continue;
    std::shared_ptr<Communicator> communicator = context.communicators[i];
    if (communicator == nullptr) communicator = make_local_communicators(1)[0];
    if (communicator->size() != ranks) {
      return invalid_argument("mesh axis '", axis, "' has ", communicator->size(),
                              " ranks here, expected ", ranks);
    }
    return communicator;
  }
  return invalid_argument("mesh axis '", axis, "' is unknown here; the axes are ", context.axes);
}

namespace {

ReduceOp reduce_op_of(const Node& node) {
  const std::string op = node.attr_string("op", "sum");
  return op == "max" ? ReduceOp::kMax : op == "min" ? ReduceOp::kMin : ReduceOp::kSum;
}

void make_copies(const TransferPlan& plan, std::span<void* const> targets) {
  for (const LocalCopy& copy : plan.copies) {
    void* target = targets[static_cast<std::size_t>(copy.to.buffer)];
    copy_region(copy.from, target, copy.to, target);
  }
}

class TransferKernel final : public Kernel {
 public:
  TransferKernel(std::shared_ptr<Communicator> communicator, TransferPlan plan)
      : communicator_(std::move(communicator)), plan_(std::move(plan)) {}

  Status run(const KernelArgs& args) override {
    TUTTI_RETURN_IF_ERROR(communicator_->exchange(plan_.exchange, args.inputs, args.outputs));
    make_copies(plan_, args.outputs);
    return {};
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  TransferPlan plan_;
};

// The piece of a value that every rank has: nobody else takes part.
class SliceKernel final : public Kernel {
 public:
  SliceKernel(TransferPlan plan, int rank)
      : plan_(std::move(plan)), rank_(static_cast<std::size_t>(rank)) {}

  Status run(const KernelArgs& args) override {
    const std::vector<Region>& from = plan_.exchange.send[rank_];
    const std::vector<Region>& to = plan_.exchange.receive[rank_];
    for (std::size_t i = 0; i < from.size(); ++i) {
      copy_region(from[i], args.inputs[0], to[i], args.outputs[0]);
    }
    make_copies(plan_, args.outputs);
    return {};
  }

 private:
  TransferPlan plan_;
  std::size_t rank_;
};

// The number of the dtype that `edge` stands for, as often as fits into `bytes`.
void fill_bytes(std::byte* target, std::int64_t bytes, const std::vector<std::byte>& number) {
  for (std::int64_t at = 0; at < bytes; at += std::ssize(number)) {
    std::memcpy(target + at, number.data(), number.size());
  }
}

void fill_region(const Region& region, std::byte* target, std::size_t depth,
                 const std::vector<std::byte>& number) {
  if (depth == region.sizes.size()) return fill_bytes(target, region.run, number);
  for (std::int64_t i = 0; i < region.sizes[depth]; ++i) {
    fill_region(region, target + i * region.strides[depth], depth + 1, number);
  }
}

// Pieces with the rows of their neighbours that windows reach into: an exchange, or (of a value
// that every rank has) a copy.
class WindowKernel final : public Kernel {
 public:
  WindowKernel(std::shared_ptr<Communicator> communicator, TransferPlan plan,
               std::vector<std::byte> edge_number, bool is_local)
      : communicator_(std::move(communicator)),
        plan_(std::move(plan)),
        edge_number_(std::move(edge_number)),
        is_local_(is_local) {}

  Status run(const KernelArgs& args) override {
    if (is_local_) {
      const auto rank = static_cast<std::size_t>(communicator_->rank());
      const std::vector<Region>& from = plan_.exchange.send[rank];
      const std::vector<Region>& to = plan_.exchange.receive[rank];
      for (std::size_t i = 0; i < from.size(); ++i) {
        copy_region(from[i], args.inputs[0], to[i], args.outputs[0]);
      }
    } else {
      TUTTI_RETURN_IF_ERROR(communicator_->exchange(plan_.exchange, args.inputs, args.outputs));
    }
    make_copies(plan_, args.outputs);
    for (const Region& region : plan_.fills) {
      fill_region(region, static_cast<std::byte*>(args.outputs[0]) + region.offset, 0,
                  edge_number_);
    }
    return {};
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  TransferPlan plan_;
  std::vector<std::byte> edge_number_;
  bool is_local_;
};

class AllReduceKernel final : public Kernel {
 public:
  AllReduceKernel(std::shared_ptr<Communicator> communicator, const TensorDesc& desc, ReduceOp op)
      : communicator_(std::move(communicator)),
        count_(desc.element_count()),
        dtype_(desc.dtype),
        op_(op) {}

  Status run(const KernelArgs& args) override {
    return communicator_->all_reduce(args.inputs[0], args.outputs[0], count_, dtype_, op_);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::int64_t count_;
  DType dtype_;
  ReduceOp op_;
};

// Gathers every rank's contribution to its own piece in the workspace and reduces them in order.
class ReduceScatterKernel final : public Kernel {
 public:
  ReduceScatterKernel(std::shared_ptr<Communicator> communicator, TransferPlan plan,
                      const TensorDesc& piece, ReduceOp op)
      : communicator_(std::move(communicator)),
        plan_(std::move(plan)),
        piece_bytes_(piece.byte_size()),
        count_(piece.element_count()),
        dtype_(piece.dtype),
        op_(op),
        contributions_(static_cast<std::size_t>(communicator_->size())) {}

  std::size_t workspace_bytes() const override { return piece_bytes_ * contributions_.size(); }

  Status run(const KernelArgs& args) override {
    void* const targets[] = {args.workspace};
    TUTTI_RETURN_IF_ERROR(communicator_->exchange(plan_.exchange, args.inputs, targets));
    make_copies(plan_, targets);
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      contributions_[i] = static_cast<const std::byte*>(args.workspace) + i * piece_bytes_;
    }
    return reduce_range(contributions_, args.outputs[0], 0, count_, dtype_, op_);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  TransferPlan plan_;
  std::size_t piece_bytes_;
  std::int64_t count_;
  DType dtype_;
  ReduceOp op_;
  std::vector<const void*> contributions_;
};

using Made = Result<std::unique_ptr<Kernel>>;

template <class K, class... Args>
Made made(Args&&... args) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(std::forward<Args>(args)...));
}

Made make_shard_slice(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const PieceSplit split, split_of(spec));
  const TensorDesc& x = spec.inputs[0];
  TUTTI_RETURN_IF_ERROR(check_dim(split.dim, x));
  const TransferOperand operand{x.dims, dtype_size(x.dtype), std::nullopt, split};
  const int rank = communicator->rank();
  TUTTI_ASSIGN_OR_RETURN(TransferPlan plan,
                         make_transfer_plan({&operand, 1}, communicator->size(), rank));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, communicator->size(), communicator->rank()));
  return made<SliceKernel>(std::move(plan), rank);
}

// Halo and WindowSlice.
Made make_window(const KernelSpec& spec, CpuContext& context) {
  const Node& node = spec.node;
  const bool is_local = node.type() == "WindowSlice";
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(node, context));
  TUTTI_ASSIGN_OR_RETURN(const TransferOperand operand, window_operand(spec));
  TUTTI_ASSIGN_OR_RETURN(TransferPlan plan, make_transfer_plan({&operand, 1}, communicator->size(),
                                                               communicator->rank()));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, communicator->size(), communicator->rank()));
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::byte> number,
                         edge_number(operand.to->window->edge, spec.inputs[0].dtype));
  return made<WindowKernel>(communicator, std::move(plan), std::move(number), is_local);
}

Made make_all_gather(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const auto operands, gather_operands(spec));
  TUTTI_ASSIGN_OR_RETURN(TransferPlan plan,
                         make_transfer_plan(operands, communicator->size(), communicator->rank()));
  TUTTI_RETURN_IF_ERROR(check_sizes(spec, operands, communicator->size(), communicator->rank()));
  return made<TransferKernel>(communicator, std::move(plan));
}

Made make_all_to_all(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const auto operands, all_to_all_operands(spec));
  TUTTI_ASSIGN_OR_RETURN(TransferPlan plan,
                         all_to_all_plan(operands, communicator->size(), communicator->rank()));
  TUTTI_RETURN_IF_ERROR(check_sizes(spec, operands, communicator->size(), communicator->rank()));
  return made<TransferKernel>(communicator, std::move(plan));
}

Made make_all_reduce(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  return made<AllReduceKernel>(communicator, spec.inputs[0], reduce_op_of(spec.node));
}

Made make_reduce_scatter(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const auto communicator, communicator_of(spec.node, context));
  TUTTI_ASSIGN_OR_RETURN(const PieceSplit split, split_of(spec));
  const TensorDesc& x = spec.inputs[0];
  TUTTI_RETURN_IF_ERROR(check_dim(split.dim, x));
  const TransferOperand operand{x.dims, dtype_size(x.dtype), std::nullopt, split};
  TUTTI_ASSIGN_OR_RETURN(TransferPlan plan,
                         reduce_scatter_plan(x.dims, operand.element_size, split,
                                             communicator->size(), communicator->rank()));
  TUTTI_RETURN_IF_ERROR(
      check_sizes(spec, {&operand, 1}, communicator->size(), communicator->rank()));
  return made<ReduceScatterKernel>(communicator, std::move(plan), spec.outputs[0],
                                   reduce_op_of(spec.node));
}

}  // namespace

void register_exchange_kernels(KernelRegistry* registry) {
  registry->add("ShardSlice", make_shard_slice);
  registry->add("WindowSlice", make_window);
  registry->add("Halo", make_window);
  registry->add("AllGather", make_all_gather);
  registry->add("AllToAll", make_all_to_all);
  registry->add("AllReduce", make_all_reduce);
  registry->add("ReduceScatter", make_reduce_scatter);
}

}  // namespace tutti::cpu
