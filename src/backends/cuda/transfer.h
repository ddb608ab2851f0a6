// One exchange of boxes between the ranks of a mesh axis, whichever way it goes.
#pragma once

#include <functional>
#include <optional>

#include "backends/cuda/exchange.h"
#include "backends/cuda/nccl.h"

namespace tutti::cuda {

// Boxes packed into one buffer a peer, sent through NCCL, and put in their places. All exchanges of
// a rank share the buffers.
class PackedTransfer {
 public:
  // `sources` and `targets`: the buffers that `plans` speak of, this rank's only.
  static Result<PackedTransfer> create(RankContext& context,
                                       const std::shared_ptr<Communicator>& communicator,
                                       const std::vector<TransferPlan>& plans,
                                       std::size_t operands);
  Status run(std::span<const void* const> sources, std::span<void* const> targets);

 private:
  explicit PackedTransfer(RankContext& context) : context_(&context) {}

  RankContext* context_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<NcclComm> nccl_;
  std::shared_ptr<DeviceMemory> scratch_;
  std::vector<NcclComm::Piece> send_;  // by rank
  std::vector<NcclComm::Piece> receive_;
  BoxCopies pack_;
  BoxCopies unpack_;
  std::vector<const void*> addresses_;
};

// Moves boxes between the ranks' inputs and targets, then makes the copies inside of this rank's
// targets. Buffers: inputs by rank and operand, then targets likewise; those that a rank does not
// touch are null.
class Transfer {
 public:
  // `plans` by rank. Boxes of the operands in `elsewhere` are moved by run()'s writer; only where
  // boxes are pushed.
  static Result<Transfer> create(RankContext& context, std::shared_ptr<Communicator> communicator,
                                 const std::vector<TransferPlan>& plans, std::size_t operands,
                                 const std::vector<bool>& elsewhere = {});

  // Writes boxes of its own into the ranks' targets, which are given by rank and operand.
  using Writer = std::function<Status(std::span<const void* const> targets)>;

  // Collective. As many sources and targets as operands.
  Status run(std::span<const void* const> sources, std::span<void* const> targets,
             const Writer& writer = {});

 private:
  Transfer(RankContext& context, std::shared_ptr<Communicator> communicator, std::size_t operands)
      : pushes_(context.exchange_way == ExchangeWay::kPush),
        meeting_(context, std::move(communicator), operands),
        operands_(operands) {}

  int source_of(std::size_t rank, std::size_t operand) const {
    return static_cast<int>(rank * operands_ + operand);
  }
  int target_of(std::size_t rank, std::size_t operand) const {
    return source_of(static_cast<std::size_t>(meeting_.size()) + rank, operand);
  }
  Status add_moves(const std::vector<TransferPlan>& plans, std::size_t sender, std::size_t receiver,
                   const std::vector<bool>& elsewhere, std::vector<BoxCopies::Box>* moves) const;
  Status move(std::span<const void* const> sources, std::span<void* const> targets,
              const Writer& writer);

  bool pushes_;
  Meeting meeting_;
  std::size_t operands_;
  std::optional<PackedTransfer> packed_;
  BoxCopies moves_;
  BoxCopies repeats_;
  std::vector<const void*> addresses_;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace tutti::cuda
