// What computes the operands of an exchange, in a body of joined nodes: row by row, straight into
// the memory of the ranks that read it, where one kernel can.
#pragma once

#include <optional>
#include <unordered_map>

#include "backends/cuda/exchange_kernels.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/row_kernel.h"

namespace tutti::cuda {

class ExchangeProducers {
 public:
  // Of `exchange` in `body`, the node's of `spec`; `descs`: its values. Both outlive the object.
  ExchangeProducers(const KernelSpec& spec, const Graph& body, const Node& exchange,
                    const std::unordered_map<const Value*, TensorDesc>& descs);

  // What `all` moves goes in `rounds`, each the plans of all ranks for a part of it. The kernels of
  // `context`'s stream are made. UNIMPLEMENTED where no operand's rows are those of one kernel, and
  // where boxes are not pushed. Perhaps not on all ranks alike: who moves a rank's boxes, and when
  // between two meetings, does not concern the others.
  Status make_rows(RankContext& context, const ExchangePlans& all,
                   const std::vector<std::vector<TransferPlan>>& rounds);
  // Then: kernels of all other producers, whose results are exchanged from the workspace.
  Status make_apart(RankContext& context);
  std::size_t workspace_bytes() const { return workspace_bytes_; }

  // By operand of the exchange.
  const std::vector<bool>& routed() const { return is_routed_; }

  // Runs what is apart. `inputs`: the body's.
  Status begin(std::span<const void* const> inputs, std::byte* workspace);
  // Where operands lie that the exchange moves; null for the others. After begin().
  std::span<const void* const> sources() const { return sources_; }
  // Writes a round of the others to `targets`, by rank and operand. After begin().
  Status write(std::size_t round, std::span<const void* const> targets);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Producer {
    const Node* node = nullptr;
    std::vector<std::size_t> operands;  // by output; kNone where the exchange does not read it
    std::vector<std::size_t> inputs;    // of the body, by input of the node; kNone: absent
    std::vector<TensorDesc> input_descs;
    std::vector<TensorDesc> output_descs;
    std::vector<const Tensor*> constants;
    // One of them. Rows by round; none in a round that needs nothing of it.
    std::vector<std::optional<RoutedRows>> rows;
    std::unique_ptr<Kernel> kernel;
    std::vector<const void*> addresses;  // scratch
    std::vector<void*> outputs;          // of the kernel
    std::vector<std::size_t> places;     // of those, in the workspace
    std::size_t workspace = 0;           // of the kernel, there
  };
  using Routes = std::vector<std::optional<RowRoute>>;

  Producer& producer_of(const Node& node, const KernelSpec& spec,
                        const std::unordered_map<const Value*, TensorDesc>& descs);
  std::size_t input_index(const Value* value) const;
  Status route(RankContext& context, Producer* producer, const ExchangePlans& all,
               const std::vector<std::vector<TransferPlan>>& rounds);
  Result<RoutedRows> make_kernel(RankContext& context, const Producer& producer,
                                 const Routes& routes) const;
  std::size_t add(std::size_t bytes);

  const Graph& body_;
  const SymbolMap& symbols_;
  std::vector<TensorDesc> operands_;
  std::vector<Producer> producers_;
  std::vector<std::size_t> given_;       // the body's inputs, by operand; kNone: of a producer
  std::vector<const void*> sources_;     // by operand
  std::vector<bool> is_routed_;          // by operand
  std::span<const void* const> inputs_;  // of the run under way
  std::size_t workspace_bytes_ = 0;
};

}  // namespace tutti::cuda
