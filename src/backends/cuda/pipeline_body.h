// The body of a PipelinedAttention: exchange, tokens put together, attention, exchange back.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "backends/cuda/exchange_producers.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {

// Where an operand of the attention comes from.
struct PipelineOperand {
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

// The nodes of the body with what their kernels are made from. The spec outlives it.
class PipelineBody {
 public:
  static Result<PipelineBody> read(const KernelSpec& spec);

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

  // The attention's operand i. UNIMPLEMENTED where more is computed between exchange and attention
  // than tokens put together.
  Result<PipelineOperand> operand(std::size_t i) const;
  // Of one token's heads; layout bshd.
  std::int64_t token_bytes(const Value* value) const;

 private:
  explicit PipelineBody(const KernelSpec& spec)
      : symbols_(spec.symbols), graph_(spec.node.attr_graph("body")) {}
  bool is_exchanged(const Value* value, PipelineOperand* operand) const;

  const SymbolMap& symbols_;
  std::shared_ptr<const Graph> graph_;
  std::unordered_map<const Value*, TensorDesc> descs_;
  std::vector<const Node*> nodes_;
  const Node* arrival_ = nullptr;
};

}  // namespace tutti::cuda
