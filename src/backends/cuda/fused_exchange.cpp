// FusedExchange: what the ranks exchange is computed row by row and written straight into the
// memory of those who read it, so that no rank stores it for itself first.
#include <algorithm>

#include "backends/cuda/exchange_kernels.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/row_kernel.h"
#include "backends/cuda/transfer.h"
#include "backends/cuda/workspace.h"
#include "runtime/storage.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

using Descriptions = std::unordered_map<const Value*, TensorDesc>;

// Where operand `i` of the exchange goes from rank `self`; a target a rank.
Result<RowRoute> route_of(const ExchangePlans& all, std::size_t i, const Dims& piece,
                          std::size_t self) {
  const TransferOperand& operand = all.operands[i];
  const auto ranks = static_cast<int>(all.plans.size());
  const auto width = static_cast<std::int64_t>(operand.element_size);
  if (!operand.from || operand.from->replicas > 1) {
    return unimplemented("ranks that hold the same rows");
  }
  RowRoute route;
  route.dims = piece;
  route.dim = operand.to ? operand.to->dim : -1;
  route.targets = all.plans.size();
  const auto dim = static_cast<std::size_t>(route.dim);
  const std::int64_t size = operand.to ? piece[dim] : 1;
  const std::int64_t step = operand.to ? contiguous_strides(piece)[dim] * width : 1;
  const std::int64_t each = element_count(piece) / size * width;
  for (std::size_t receiver = 0; receiver < all.plans.size(); ++receiver) {
    const Dims strides =
        contiguous_strides(piece_dims(operand.dims, operand.to, ranks, static_cast<int>(receiver)));
    const std::vector<Region>& from = all.plans[self].exchange.send[receiver];
    const std::vector<Region>& to = all.plans[receiver].exchange.receive[self];
    for (std::size_t r = 0; r < from.size(); ++r) {
      if (from[r].buffer != static_cast<int>(i)) continue;
      const auto offset = static_cast<std::int64_t>(from[r].offset);
      const std::int64_t first = offset / step;
      const std::int64_t count = from[r].byte_size() / each;
      if (offset % step != 0 || from[r].byte_size() % each != 0 || first + count > size) {
        return internal_error("a box of ", from[r].byte_size(), " bytes at ", offset,
                              " is no piece of ", piece, " along dimension ", route.dim);
      }
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t moved = operand.to ? k * strides[dim] : 0;
        route.places.push_back({first + k, receiver,
                                static_cast<std::int64_t>(to[r].offset) / width + moved, strides});
      }
    }
  }
  return route;
}

// A node that computes operands of the exchange.
struct Producer {
  const Node* node = nullptr;
  std::vector<std::size_t> operands;  // by output; kNone where the exchange does not read it
  std::vector<std::size_t> inputs;    // of the body, by input of the node; kNone: absent
  std::vector<TensorDesc> input_descs;
  std::vector<TensorDesc> output_descs;
  std::vector<const Tensor*> constants;
  // One of them:
  std::vector<RoutedRows> rows;
  std::unique_ptr<Kernel> kernel;
  std::size_t workspace = 0;
  std::vector<const void*> addresses;  // of `rows`, or of the kernel's inputs
  std::vector<void*> outputs;          // of the kernel
  std::vector<std::size_t> places;     // of those, in the workspace
};

class FusedExchange final : public Kernel {
 public:
  explicit FusedExchange(RankContext& context) : context_(context) {}

  Status set_up(const KernelSpec& spec) {
    body_ = spec.node.attr_graph("body");
    TUTTI_ASSIGN_OR_RETURN(const Descriptions descs, describe_values(*body_, spec.symbols));
    const Node& exchange = *body_->nodes().back();
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    for (const Value* x : exchange.inputs()) inputs.push_back(descs.at(x));
    for (const Value* y : exchange.outputs()) outputs.push_back(descs.at(y));
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    TUTTI_ASSIGN_OR_RETURN(
        const ExchangePlans all,
        exchange_plans({exchange, inputs, outputs, constants, spec.symbols}, context_));
    find_producers(exchange, spec, descs);
    std::vector<bool> is_routed(inputs.size(), false);
    for (Producer& producer : producers_) {
      TUTTI_ASSIGN_OR_RETURN(const bool done, route(&producer, all, inputs, spec.symbols));
      for (const std::size_t i : producer.operands) {
        if (done && i != kNone) is_routed[i] = true;
      }
    }
    if (std::count(is_routed.begin(), is_routed.end(), true) == 0) {
      return unimplemented("no operand of the exchange is computed in rows");
    }
    for (Producer& producer : producers_) {
      if (producer.rows.empty()) TUTTI_RETURN_IF_ERROR(make_apart(&producer, spec.symbols));
    }
    TUTTI_ASSIGN_OR_RETURN(
        Transfer transfer,
        Transfer::create(context_, all.communicator, all.plans, inputs.size(), is_routed));
    transfer_.push_back(std::move(transfer));
    writer_ = [this](std::span<const void* const> targets) { return write(targets); };
    return {};
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  Status run(const KernelArgs& args) override {
    inputs_ = args.inputs;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (given_[i] != kNone) sources_[i] = args.inputs[given_[i]];
    }
    for (Producer& producer : producers_) {
      if (producer.kernel == nullptr) continue;
      TUTTI_RETURN_IF_ERROR(run_apart(&producer, static_cast<std::byte*>(args.workspace)));
    }
    return transfer_.front().run(sources_, args.outputs, writer_);
  }

 private:
  void find_producers(const Node& exchange, const KernelSpec& spec, const Descriptions& descs) {
    const auto input_index = [&](const Value* value) {
      const auto& inputs = body_->inputs();
      return static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), value) -
                                      inputs.begin());
    };
    given_.assign(exchange.inputs().size(), kNone);
    sources_.assign(exchange.inputs().size(), nullptr);
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const Value* value = exchange.input(i);
      while (!value->is_input() && value->producer()->op().is_view) {
        value = value->producer()->input(0);
      }
      if (value->is_input()) {
        given_[i] = input_index(value);
        continue;
      }
      const Node* node = value->producer();
      auto producer = std::find_if(producers_.begin(), producers_.end(),
                                   [&](const Producer& known) { return known.node == node; });
      if (producer == producers_.end()) {
        producer = producers_.emplace(producers_.end());
        producer->node = node;
        producer->operands.assign(node->outputs().size(), kNone);
        for (const Value* x : node->inputs()) {
          producer->inputs.push_back(x == nullptr ? kNone : input_index(x));
          producer->input_descs.push_back(x == nullptr ? TensorDesc() : descs.at(x));
          producer->constants.push_back(x == nullptr ? nullptr : spec.constants[input_index(x)]);
        }
        for (const Value* y : node->outputs()) producer->output_descs.push_back(descs.at(y));
      }
      producer->operands[static_cast<std::size_t>(value->producer_output())] = i;
    }
  }

  // False where its rows are no rows of one kernel.
  Result<bool> route(Producer* producer, const ExchangePlans& all,
                     const std::vector<TensorDesc>& operands, const SymbolMap& symbols) {
    const auto self =
        static_cast<std::size_t>(all.communicator == nullptr ? 0 : all.communicator->rank());
    std::vector<std::optional<RowRoute>> routes;
    for (std::size_t j = 0; j < producer->operands.size(); ++j) {
      const std::size_t i = producer->operands[j];
      if (producer->output_descs[j].element_count() == 0) return false;
      if (i == kNone) {
        routes.emplace_back().emplace().dims = producer->output_descs[j].dims;
        continue;
      }
      Result<RowRoute> route = route_of(all, i, operands[i].dims, self);
      if (route.status().code() == StatusCode::kUnimplemented) return false;
      TUTTI_RETURN_IF_ERROR(route.status());
      routes.push_back(*std::move(route));
    }
    Result<RoutedRows> rows = make_rows(*producer, routes, symbols);
    if (rows.status().code() == StatusCode::kUnimplemented) return false;
    TUTTI_RETURN_IF_ERROR(rows.status());
    producer->rows.push_back(*std::move(rows));
    return true;
  }

  Result<RoutedRows> make_rows(const Producer& producer,
                               std::span<const std::optional<RowRoute>> routes,
                               const SymbolMap& symbols) {
    if (producer.node->type() == "Fused") {
      const std::shared_ptr<const Graph> body = producer.node->attr_graph("body");
      return RoutedRows::create(context_,
                                {*body, producer.input_descs, producer.constants, symbols}, routes);
    }
    Graph alone;
    std::vector<Value*> operands;
    std::vector<TensorDesc> inputs;
    std::vector<const Tensor*> constants;
    for (std::size_t i = 0; i < producer.inputs.size(); ++i) {
      operands.push_back(nullptr);
      if (producer.inputs[i] == kNone) continue;
      operands.back() = alone.add_input("", producer.node->input(i)->type());
      inputs.push_back(producer.input_descs[i]);
      constants.push_back(producer.constants[i]);
    }
    std::vector<TensorType> types;
    for (const Value* output : producer.node->outputs()) types.push_back(output->type());
    const Node* twin =
        alone.add_node(producer.node->op(), producer.node->name(), std::move(operands),
                       producer.node->attributes(), std::move(types));
    for (Value* output : twin->outputs()) alone.add_output(output);
    return RoutedRows::create(context_, {alone, inputs, constants, symbols}, routes);
  }

  // A producer as an ordinary node whose results are exchanged from the workspace.
  Status make_apart(Producer* producer, const SymbolMap& symbols) {
    producer->outputs.resize(producer->output_descs.size());
    bool is_idle = true;
    for (std::size_t j = 0; j < producer->outputs.size(); ++j) {
      producer->places.push_back(add(producer->output_descs[j].byte_size()));
      is_idle = is_idle && producer->output_descs[j].element_count() == 0;
    }
    if (is_idle) return {};
    const KernelFactory factory = kernel_table().find(producer->node->type());
    if (factory == nullptr) return unimplemented("no kernel for ", producer->node->type());
    TUTTI_ASSIGN_OR_RETURN(producer->kernel,
                           factory({*producer->node, producer->input_descs, producer->output_descs,
                                    producer->constants, symbols},
                                   context_));
    producer->workspace = add(producer->kernel->workspace_bytes());
    producer->addresses.resize(producer->inputs.size());
    return {};
  }

  std::size_t add(std::size_t bytes) {
    const std::size_t place = workspace_bytes_;
    workspace_bytes_ += aligned(bytes);
    return place;
  }

  Status run_apart(Producer* producer, std::byte* workspace) {
    for (std::size_t i = 0; i < producer->inputs.size(); ++i) {
      producer->addresses[i] =
          producer->inputs[i] == kNone ? nullptr : inputs_[producer->inputs[i]];
    }
    for (std::size_t j = 0; j < producer->outputs.size(); ++j) {
      producer->outputs[j] = workspace + producer->places[j];
      if (producer->operands[j] != kNone) sources_[producer->operands[j]] = producer->outputs[j];
    }
    return producer->kernel->run(
        {producer->addresses, producer->outputs, workspace + producer->workspace});
  }

  // All rows to where the ranks read them.
  Status write(std::span<const void* const> targets) {
    const std::size_t operands = sources_.size();
    for (Producer& producer : producers_) {
      if (producer.rows.empty()) continue;
      producer.addresses.clear();  // keeps its memory
      for (const std::size_t input : producer.inputs) {
        if (input != kNone) producer.addresses.push_back(inputs_[input]);
      }
      producer.addresses.insert(producer.addresses.end(), producer.operands.size(), nullptr);
      for (const std::size_t i : producer.operands) {
        for (std::size_t at = i; i != kNone && at < targets.size(); at += operands) {
          producer.addresses.push_back(targets[at]);
        }
      }
      TUTTI_RETURN_IF_ERROR(producer.rows.front().run(producer.addresses));
    }
    return {};
  }

  RankContext& context_;
  std::shared_ptr<const Graph> body_;
  std::vector<Producer> producers_;
  std::vector<Transfer> transfer_;       // one
  std::vector<std::size_t> given_;       // the body's inputs, by operand; kNone: from a producer
  std::vector<const void*> sources_;     // by operand; null where rows go out by themselves
  std::span<const void* const> inputs_;  // of the run under way
  Transfer::Writer writer_;
  std::size_t workspace_bytes_ = 0;
};

KernelResult make_fused_exchange(const KernelSpec& spec, RankContext& context) {
  if (!context.fuses_exchanges || context.exchange_way != ExchangeWay::kPush) {
    return unimplemented("what is exchanged is stored first");
  }
  auto kernel = std::make_unique<FusedExchange>(context);
  TUTTI_RETURN_IF_ERROR(kernel->set_up(spec));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

void register_fused_exchange(KernelTable* table) {
  table->add("FusedExchange", make_fused_exchange);
}

}  // namespace tutti::cuda
