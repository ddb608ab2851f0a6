// FusedExchange: what the ranks exchange is computed row by row and written straight into the
// memory of those who read it, so that no rank stores it for itself first.
#include "backends/cuda/exchange_producers.h"
#include "backends/cuda/transfer.h"
#include "runtime/storage.h"

namespace tutti::cuda {
namespace {

class FusedExchange final : public Kernel {
 public:
  static KernelResult make(const KernelSpec& spec, RankContext& context) {
    std::unique_ptr<FusedExchange> made(new FusedExchange);
    TUTTI_RETURN_IF_ERROR(made->set_up(spec, context));
    return std::unique_ptr<Kernel>(std::move(made));
  }

  std::size_t workspace_bytes() const override { return producers_->workspace_bytes(); }

  Status run(const KernelArgs& args) override {
    TUTTI_RETURN_IF_ERROR(producers_->begin(args.inputs, static_cast<std::byte*>(args.workspace)));
    return transfer_->run(producers_->sources(), args.outputs, writer_);
  }

 private:
  FusedExchange() = default;

  Status set_up(const KernelSpec& spec, RankContext& context) {
    body_ = spec.node.attr_graph("body");
    TUTTI_ASSIGN_OR_RETURN(const auto descs, describe_values(*body_, spec.symbols));
    const Node& exchange = *body_->nodes().back();
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    for (const Value* x : exchange.inputs()) inputs.push_back(descs.at(x));
    for (const Value* y : exchange.outputs()) outputs.push_back(descs.at(y));
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    TUTTI_ASSIGN_OR_RETURN(
        const ExchangePlans all,
        exchange_plans({exchange, inputs, outputs, constants, spec.symbols}, context));
    producers_.emplace(spec, *body_, exchange, descs);
    TUTTI_RETURN_IF_ERROR(producers_->make_rows(context, all, {all.plans}));
    TUTTI_RETURN_IF_ERROR(producers_->make_apart(context));
    TUTTI_ASSIGN_OR_RETURN(Transfer transfer,
                           Transfer::create(context, all.communicator, all.plans, inputs.size(),
                                            producers_->routed()));
    transfer_.emplace(std::move(transfer));
    writer_ = [this](std::span<const void* const> targets) {
      return producers_->write(0, targets);
    };
    return {};
  }

  std::shared_ptr<const Graph> body_;
  std::optional<ExchangeProducers> producers_;
  std::optional<Transfer> transfer_;
  Transfer::Writer writer_;
};

}  // namespace

void register_fused_exchange(KernelTable* table) {
  table->add("FusedExchange", FusedExchange::make);
}

}  // namespace tutti::cuda
