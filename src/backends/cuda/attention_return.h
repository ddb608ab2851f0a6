// The way back of a pipelined attention: results go to the ranks that hold their tokens. The
// attention itself writes them there where its kernel can; else they are copied from where it did.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/attention.h"
#include "backends/cuda/exchange.h"
#include "backends/cuda/exchange_kernels.h"

namespace tutti::cuda {

// Where the results of `problem` go from rank `self` by `plans`, which move all of them, into a
// target a rank. UNIMPLEMENTED where boxes are not all heads of some tokens.
Result<std::vector<AttentionPlace>> places_of_results(const AttentionProblem& problem,
                                                      const std::vector<TransferPlan>& plans,
                                                      std::size_t self);

// One exchange for all pieces of the heads, open while they are attended to: results may be written
// to targets() whenever they are there. Which way a rank's results take does not concern the
// others.
class AttentionReturn {
 public:
  // `pieces`: what moves with each, the plans of all ranks. Boxes are pushed on `context`'s stream.
  static Result<AttentionReturn> create(RankContext& context, const ExchangePlans& all,
                                        const std::vector<std::vector<TransferPlan>>& pieces);

  // Collective. `out`: what this rank gets.
  Status open(void* out);
  // By rank, after open().
  std::span<void* const> targets() const { return targets_; }
  // Sends a piece that lies in `results`.
  Status copy(std::size_t piece, const void* results);
  // Collective. After this, what the ranks get is there.
  Status close();

 private:
  AttentionReturn(RankContext& context, const ExchangePlans& all)
      : meeting_(context, all.communicator, 1) {}

  Meeting meeting_;
  std::vector<BoxCopies> copies_;  // by piece
  std::vector<void*> targets_;
  std::vector<const void*> addresses_;  // results, targets, and a place for copies
  std::int64_t sent_bytes_ = 0;
};

}  // namespace tutti::cuda
