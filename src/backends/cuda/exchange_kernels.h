// What other kernels need of exchanges.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/rank_context.h"
#include "comm/transfer_plan.h"
#include "runtime/backend.h"

namespace tutti::cuda {

// Puts together whole tensors from the ranks' pieces along one dimension.
class PieceGather {
 public:
  virtual ~PieceGather() = default;
  // Collective. As many sources as targets.
  virtual Status run(std::span<const void* const> sources, std::span<void* const> targets) = 0;
};

// `node` names the mesh axis; pieces[i] is this rank's, cut along `dim` of `size` in the whole, or
// of each of the `segments` that the whole is joined of.
Result<std::unique_ptr<PieceGather>> make_piece_gather(const Node& node, RankContext& context,
                                                       std::span<const TensorDesc> pieces, int dim,
                                                       std::int64_t size,
                                                       const Dims& segments = {});

// What the AllToAll or AllGather node of `spec` moves, by rank, and between whom; null for one
// rank.
struct ExchangePlans {
  std::shared_ptr<Communicator> communicator;
  std::vector<TransferOperand> operands;
  std::vector<TransferPlan> plans;
};
Result<ExchangePlans> exchange_plans(const KernelSpec& spec, const RankContext& context);

}  // namespace tutti::cuda
