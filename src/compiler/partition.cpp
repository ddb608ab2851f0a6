#include "compiler/partition.h"

#include "compiler/conversion.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// Attributes that spell out the output's shape become that of the local output.
AttributeMap local_attributes(const Node& node, const Shape& local_output) {
  AttributeMap attributes = node.attributes();
  const Shape& global = node.output()->shape();
  for (auto& [name, attribute] : attributes) {
    const Shape* dims = std::get_if<Shape>(&attribute);
    if (dims != nullptr && !dims->empty() && *dims == global) attribute = local_output;
  }
  return attributes;
}

// The first of a rank's queries stands further back in the sequence than its number says.
void shift_causal_offset(const Node& node, const Layout& output, const Mesh& mesh,
                         AttributeMap* attributes) {
  if (node.type() != "Attention" || node.attr_int("is_causal") == 0) return;
  const int tokens = token_dimension(node);
  const Split* split = output.on_dim(tokens);
  if (split == nullptr) return;
  const Dim rank = mesh.rank_symbol(split->axis);
  const Dim ranks(mesh.size(split->axis));
  const Dim first = rank * floor_div(split->units, ranks) + min(rank, mod(split->units, ranks));
  const Dim unit =
      floor_div(node.output()->shape()[static_cast<std::size_t>(tokens)], split->units);
  const Shape offset = node.attr_dims("causal_offset");
  (*attributes)["causal_offset"] = Shape{(offset.empty() ? Dim(0) : offset[0]) + first * unit};
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Sharding& sharding, const CompileOptions& options)
      : graph_(graph),
        sharding_(sharding),
        mesh_(options.mesh),
        builder_((out_.graph = std::make_unique<Graph>()).get(), options.registry) {}

  Result<Partitioned> run() {
    out_.graph->name = graph_.name;
    for (const Value* input : graph_.inputs()) {
      add_version(input, Layout(), out_.graph->add_input(input->name(), input->type()));
    }
    for (const Value* constant : graph_.constants()) {
      add_version(constant, Layout(),
                  out_.graph->add_constant(constant->name(), constant->constant()));
    }
    for (const auto& node : graph_.nodes()) TUTTI_RETURN_IF_ERROR(add_node(*node));
    for (const Value* output : graph_.outputs()) {
      builder_.set_name(str_cat("output ", output->name()));
      Value* whole = version(output, Layout());
      TUTTI_RETURN_IF_ERROR(builder_.status());
      out_.graph->add_output(whole);
    }
    out_.graph->output_names = graph_.output_names;
    return std::move(out_);
  }

 private:
  struct Version {
    Layout layout;
    Value* value = nullptr;
  };

  Status add_node(const Node& node) {
    static const NodeSharding kReplicated;
    const auto it = sharding_.nodes.find(&node);
    const NodeSharding& split = it == sharding_.nodes.end() ? kReplicated : it->second;
    const FactorMap map = factors_of(node);
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      builder_.set_name(node.name());
      inputs.push_back(input == nullptr ? nullptr : version(input, input_layout(map, i, split)));
    }
    const Layout first_output = output_layout(map, 0, split);
    AttributeMap attributes =
        local_attributes(node, local_shape(node.output()->shape(), first_output, mesh_));
    shift_causal_offset(node, first_output, mesh_, &attributes);
    builder_.set_name(node.name());
    const std::vector<Value*> outputs =
        builder_.ops(node.type(), std::move(inputs), std::move(attributes),
                     static_cast<int>(node.outputs().size()));
    TUTTI_RETURN_IF_ERROR(
        builder_.status().with_context(str_cat("piece of ", node.describe(), " with rule ", map)));
    out_.origins.emplace(outputs[0]->producer(), &node);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value* whole = node.output(i);
      const Layout layout = output_layout(map, i, split);
      const Shape expected = local_shape(whole->shape(), layout, mesh_);
      if (outputs[i]->shape() != expected) {
        return internal_error("piece of ", node.describe(), " has shape ", outputs[i]->shape(),
                              ", expected ", expected, " for layout ",
                              layout.to_string(whole->shape(), mesh_), " by rule ", map);
      }
      outputs[i]->set_symbolic(whole->symbolic());
      out_.graph->rename(outputs[i], whole->name());
      add_version(whole, layout, outputs[i]);
    }
    return {};
  }

  void add_version(const Value* whole, const Layout& layout, Value* local) {
    versions_[whole].push_back({layout, local});
    out_.layouts[local->name()] = {whole->type(), layout};
  }

  // `whole` in this layout, converted from the version that costs least to get there.
  Value* version(const Value* whole, const Layout& wanted) {
    std::vector<Version>& known = versions_[whole];
    std::size_t best = 0;
    std::size_t best_moves = 0;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (same_pieces(known[i].layout, wanted, mesh_)) return known[i].value;
      std::size_t moves = 0;
      for (const ConversionStep& step : conversion_steps(known[i].layout, wanted, mesh_)) {
        moves += step.kind == StepKind::kSlice ? 1 : 100;  // slices are nearly free
      }
      if (i > 0 && moves >= best_moves) continue;
      best = i;
      best_moves = moves;
    }
    Version now = known[best];
    for (const ConversionStep& step : conversion_steps(now.layout, wanted, mesh_)) {
      now.value = add_step(*whole, now.value, step);
      if (now.value == nullptr) return nullptr;
      now.layout = after_step(std::move(now.layout), step);
      out_.graph->rename(now.value, version_name(*whole, now.layout));
      add_version(whole, now.layout, now.value);
    }
    return now.value;
  }

  std::string version_name(const Value& whole, const Layout& layout) const {
    std::string name = whole.name() + "/";
    for (const Split& split : layout.splits) {
      name += str_cat(mesh_.axes()[static_cast<std::size_t>(split.axis)].name, split.dim);
    }
    return layout.splits.empty() ? name + "whole" : name;
  }

  Value* add_step(const Value& whole, Value* value, const ConversionStep& step) {
    AttributeMap attributes;
    attributes["axis"] = mesh_.axes()[static_cast<std::size_t>(step.axis)].name;
    attributes["ranks"] = std::int64_t{mesh_.size(step.axis)};
    const auto size_of = [&](const Split& split) {
      return Shape{whole.shape()[static_cast<std::size_t>(split.dim)]};
    };
    const auto add_cut = [&](const Split& split) {
      attributes["dim"] = std::int64_t{split.dim};
      attributes["units"] = Shape{split.units};
    };
    switch (step.kind) {
      case StepKind::kSlice:
        add_cut(step.to);
        attributes["replicas"] = std::int64_t{step.to.replicas};
        return builder_.op("ShardSlice", {value}, std::move(attributes));
      case StepKind::kGather:
        add_cut(step.from);
        attributes["replicas"] = std::int64_t{step.from.replicas};
        attributes["size"] = size_of(step.from);
        return builder_.op("AllGather", {value}, std::move(attributes));
      case StepKind::kAllReduce:
        attributes["op"] = std::string("sum");
        return builder_.op("AllReduce", {value}, std::move(attributes));
      case StepKind::kReduceScatter:
        add_cut(step.to);
        attributes["op"] = std::string("sum");
        return builder_.op("ReduceScatter", {value}, std::move(attributes));
      case StepKind::kAllToAll: break;
    }
    using Ints = std::vector<std::int64_t>;
    attributes["from_dims"] = Ints{step.from.dim};
    attributes["from_units"] = Shape{step.from.units};
    attributes["from_replicas"] = Ints{step.from.replicas};
    attributes["to_dims"] = Ints{step.to.dim};
    attributes["to_units"] = Shape{step.to.units};
    attributes["to_replicas"] = Ints{step.to.replicas};
    attributes["sizes"] = size_of(step.from);
    return builder_.op("AllToAll", {value}, std::move(attributes));
  }

  const Graph& graph_;
  const Sharding& sharding_;
  const Mesh& mesh_;
  Partitioned out_;
  GraphBuilder builder_;
  std::map<const Value*, std::vector<Version>> versions_;
};

}  // namespace

Result<Partitioned> partition(const Graph& graph, const Sharding& sharding,
                              const CompileOptions& options) {
  return Partitioner(graph, sharding, options).run();
}

}  // namespace tutti
