// Generated kernels over rows: at most one norm, pointwise nodes and movements inside a row, with
// one read and one write of everything. Threads of a team share a row and keep what they normalise
// in registers. Where an element is read from is known by numbers when the kernel is made, so
// halves that change places (rotary embeddings in all spellings) are only other addresses.
#pragma once

#include <optional>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/row_route.h"
#include "graph/graph.h"

namespace tutti::cuda {

// A body of ordinary nodes with bound sizes; its inputs are the operands.
struct RowSpec {
  const Graph& body;
  std::span<const TensorDesc> inputs;
  std::span<const Tensor* const> constants;  // by input; null where it is none
  const SymbolMap& symbols;
};

// Addresses: inputs, then outputs, none of which overlap. UNIMPLEMENTED where the body does not
// consist of rows that one kernel can do; the message says why.
Result<GeneratedKernel> make_row_kernel(RankContext& context, const RowSpec& spec);

// Likewise with outputs that are written somewhere else.
class RoutedRows {
 public:
  // `routes` by output, none for one that is written as it is.
  static Result<RoutedRows> create(RankContext& context, const RowSpec& spec,
                                   std::span<const std::optional<RowRoute>> routes);
  // Addresses: inputs, then outputs (of routed ones any), then the targets of all routes.
  Status run(std::span<const void* const> addresses);

 private:
  std::vector<GeneratedKernel> kernel_;  // one
  std::shared_ptr<DeviceMemory> table_;
  std::vector<const void*> addresses_;
};

}  // namespace tutti::cuda
