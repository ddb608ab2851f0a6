#include "backends/cuda/exchange_producers.h"

#include <algorithm>

#include "backends/cuda/workspace.h"
#include "graph/op_def.h"

namespace tutti::cuda {
namespace {

// Where operand `i` of the exchange goes from rank `self` by `plans`; a target a rank.
Result<RowRoute> route_of(const ExchangePlans& all, const std::vector<TransferPlan>& plans,
                          std::size_t i, const Dims& piece, std::size_t self) {
  const TransferOperand& operand = all.operands[i];
  const auto ranks = static_cast<int>(plans.size());
  const auto width = static_cast<std::int64_t>(operand.element_size);
  if (!operand.from || operand.from->replicas > 1) {
    return unimplemented("ranks that hold the same rows");
  }
  RowRoute route;
  route.dims = piece;
  route.dim = operand.to ? operand.to->dim : -1;
  route.targets = plans.size();
  const auto dim = static_cast<std::size_t>(route.dim);
  const std::int64_t size = operand.to ? piece[dim] : 1;
  const std::int64_t step = operand.to ? contiguous_strides(piece)[dim] * width : 1;
  const std::int64_t each = element_count(piece) / size * width;
  for (std::size_t receiver = 0; receiver < plans.size(); ++receiver) {
    const Dims strides =
        contiguous_strides(piece_dims(operand.dims, operand.to, ranks, static_cast<int>(receiver)));
    const std::vector<Region>& from = plans[self].exchange.send[receiver];
    const std::vector<Region>& to = plans[receiver].exchange.receive[self];
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

// The node by itself, as the body of a kernel over rows.
std::unique_ptr<Graph> alone(const Node& node) {
  auto graph = std::make_unique<Graph>();
  std::vector<Value*> inputs;
  for (const Value* input : node.inputs()) {
    inputs.push_back(input == nullptr ? nullptr : graph->add_input("", input->type()));
  }
  std::vector<TensorType> types;
  for (const Value* output : node.outputs()) types.push_back(output->type());
  const Node* twin = graph->add_node(node.op(), node.name(), std::move(inputs), node.attributes(),
                                     std::move(types));
  for (Value* output : twin->outputs()) graph->add_output(output);
  return graph;
}

}  // namespace

ExchangeProducers::ExchangeProducers(const KernelSpec& spec, const Graph& body,
                                     const Node& exchange,
                                     const std::unordered_map<const Value*, TensorDesc>& descs)
    : body_(body),
      symbols_(spec.symbols),
      given_(exchange.inputs().size(), kNone),
      sources_(exchange.inputs().size(), nullptr),
      is_routed_(exchange.inputs().size(), false) {
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const Value* value = exchange.input(i);
    operands_.push_back(descs.at(value));
    while (!value->is_input() && value->producer()->op().is_view) {
      value = value->producer()->input(0);
    }
    if (value->is_input()) {
      given_[i] = input_index(value);
      continue;
    }
    Producer& producer = producer_of(*value->producer(), spec, descs);
    producer.operands[static_cast<std::size_t>(value->producer_output())] = i;
  }
}

std::size_t ExchangeProducers::input_index(const Value* value) const {
  const auto& inputs = body_.inputs();
  return static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
}

ExchangeProducers::Producer& ExchangeProducers::producer_of(
    const Node& node, const KernelSpec& spec,
    const std::unordered_map<const Value*, TensorDesc>& descs) {
  for (Producer& known : producers_) {
    if (known.node == &node) return known;
  }
  Producer& producer = producers_.emplace_back();
  producer.node = &node;
  producer.operands.assign(node.outputs().size(), kNone);
  for (const Value* x : node.inputs()) {
    producer.inputs.push_back(x == nullptr ? kNone : input_index(x));
    producer.input_descs.push_back(x == nullptr ? TensorDesc() : descs.at(x));
    producer.constants.push_back(x == nullptr ? nullptr : spec.constants[input_index(x)]);
  }
  for (const Value* y : node.outputs()) producer.output_descs.push_back(descs.at(y));
  return producer;
}

Status ExchangeProducers::make_rows(RankContext& context, const ExchangePlans& all,
                                    const std::vector<std::vector<TransferPlan>>& rounds) {
  if (!context.fuses_exchanges || context.exchange_way != ExchangeWay::kPush) {
    return unimplemented("what is exchanged is stored first");
  }
  bool is_any = false;
  for (Producer& producer : producers_) {
    if (Status status = route(context, &producer, all, rounds); !status.ok()) {
      if (status.code() != StatusCode::kUnimplemented) return status;
      producer.rows.clear();
      continue;
    }
    is_any = true;
    for (const std::size_t i : producer.operands) {
      if (i != kNone) is_routed_[i] = true;
    }
  }
  return is_any ? Status() : unimplemented("no operand of the exchange is computed in rows");
}

Status ExchangeProducers::route(RankContext& context, Producer* producer, const ExchangePlans& all,
                                const std::vector<std::vector<TransferPlan>>& rounds) {
  const auto self =
      static_cast<std::size_t>(all.communicator == nullptr ? 0 : all.communicator->rank());
  for (const std::vector<TransferPlan>& plans : rounds) {
    Routes routes(producer->operands.size());
    bool is_any = false;
    for (std::size_t j = 0; j < routes.size(); ++j) {
      const std::size_t i = producer->operands[j];
      const Dims& dims = producer->output_descs[j].dims;
      if (element_count(dims) == 0) return unimplemented("there are no rows");
      if (i == kNone) {
        routes[j].emplace().dims = dims;  // nowhere
        continue;
      }
      TUTTI_ASSIGN_OR_RETURN(routes[j], route_of(all, plans, i, operands_[i].dims, self));
      routes[j]->skips_rows = rounds.size() > 1;
      is_any = is_any || !routes[j]->places.empty();
    }
    producer->rows.emplace_back();
    if (!is_any) continue;
    TUTTI_ASSIGN_OR_RETURN(producer->rows.back(), make_kernel(context, *producer, routes));
  }
  return {};
}

Result<RoutedRows> ExchangeProducers::make_kernel(RankContext& context, const Producer& producer,
                                                  const Routes& routes) const {
  std::vector<TensorDesc> inputs;
  std::vector<const Tensor*> constants;
  for (std::size_t i = 0; i < producer.inputs.size(); ++i) {
    if (producer.inputs[i] == kNone) continue;
    inputs.push_back(producer.input_descs[i]);
    constants.push_back(producer.constants[i]);
  }
  const std::shared_ptr<const Graph> body =
      producer.node->type() == "Fused" ? producer.node->attr_graph("body") : alone(*producer.node);
  return RoutedRows::create(context, {*body, inputs, constants, symbols_}, routes);
}

Status ExchangeProducers::make_apart(RankContext& context) {
  for (Producer& producer : producers_) {
    if (!producer.rows.empty()) continue;
    bool is_idle = true;
    for (const TensorDesc& output : producer.output_descs) {
      producer.places.push_back(add(output.byte_size()));
      is_idle = is_idle && output.element_count() == 0;
    }
    if (is_idle) continue;
    const KernelFactory factory = kernel_table().find(producer.node->type());
    if (factory == nullptr) return unimplemented("no kernel for ", producer.node->type());
    TUTTI_ASSIGN_OR_RETURN(producer.kernel,
                           factory({*producer.node, producer.input_descs, producer.output_descs,
                                    producer.constants, symbols_},
                                   context));
    producer.workspace = add(producer.kernel->workspace_bytes());
    producer.addresses.resize(producer.inputs.size());
    producer.outputs.resize(producer.places.size());
  }
  return {};
}

std::size_t ExchangeProducers::add(std::size_t bytes) {
  const std::size_t place = workspace_bytes_;
  workspace_bytes_ += aligned(bytes);
  return place;
}

Status ExchangeProducers::begin(std::span<const void* const> inputs, std::byte* workspace) {
  inputs_ = inputs;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (given_[i] != kNone) sources_[i] = inputs[given_[i]];
  }
  for (Producer& producer : producers_) {
    if (producer.kernel == nullptr) continue;
    for (std::size_t i = 0; i < producer.inputs.size(); ++i) {
      producer.addresses[i] = producer.inputs[i] == kNone ? nullptr : inputs[producer.inputs[i]];
    }
    for (std::size_t j = 0; j < producer.outputs.size(); ++j) {
      producer.outputs[j] = workspace + producer.places[j];
      if (producer.operands[j] != kNone) sources_[producer.operands[j]] = producer.outputs[j];
    }
    TUTTI_RETURN_IF_ERROR(producer.kernel->run(
        {producer.addresses, producer.outputs, workspace + producer.workspace}));
  }
  return {};
}

Status ExchangeProducers::write(std::size_t round, std::span<const void* const> targets) {
  for (Producer& producer : producers_) {
    if (producer.rows.empty() || !producer.rows[round]) continue;
    std::vector<const void*>& addresses = producer.addresses;
    addresses.clear();  // keeps its memory
    for (const std::size_t input : producer.inputs) {
      if (input != kNone) addresses.push_back(inputs_[input]);
    }
    addresses.insert(addresses.end(), producer.operands.size(), nullptr);
    for (const std::size_t i : producer.operands) {
      for (std::size_t at = i; i != kNone && at < targets.size(); at += sources_.size()) {
        addresses.push_back(targets[at]);
      }
    }
    TUTTI_RETURN_IF_ERROR(producer.rows[round]->run(addresses));
  }
  return {};
}

}  // namespace tutti::cuda
