#include "compiler/constraints.h"

#include <algorithm>

namespace tutti {
namespace {

const std::string& name_of(const Value& value, const NameMap& names) {
  const auto it = names.find(value.name());
  return it == names.end() ? value.name() : it->second;
}

// Sizes of other names may be the same.
Status check_sizes(const Node& node, const Value& value, const LayoutConstraint& source) {
  const int rank = static_cast<int>(value.rank());
  for (const ConstraintSize& given : source.sizes) {
    const int dim = given.dim < 0 ? given.dim + rank : given.dim;
    if (dim < 0 || dim >= rank) continue;
    const Dim& size = value.shape()[static_cast<std::size_t>(dim)];
    const Dim difference = size - given.size;
    if (!difference.is_constant() || difference.is(0)) continue;
    return invalid_argument(node.describe(), ": the annotation of '", source.value,
                            "' takes dimension ", given.dim, " to be ", given.size, ", expected ",
                            size, " of ", value.type());
  }
  return {};
}

}  // namespace

Result<AxisConstraints> AxisConstraints::create(const Graph& graph, const CompileOptions& options,
                                                int axis, const NameMap& names) {
  AxisConstraints out(options.mesh, axis);
  if (options.constraints.empty()) return out;
  std::map<std::string, std::vector<const LayoutConstraint*>, std::less<>> by_value;
  for (const LayoutConstraint& constraint : options.constraints) {
    by_value[constraint.value].push_back(&constraint);
  }
  const auto add_operands = [&](const Node& node, bool is_output) -> Status {
    const auto& values = is_output ? node.outputs() : node.inputs();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == nullptr) continue;
      const auto found = by_value.find(name_of(*values[i], names));
      if (found == by_value.end()) continue;
      for (const LayoutConstraint* constraint : found->second) {
        if (constraint->node != node.name()) continue;
        // Pieces that other axes left are smaller than annotations say.
        if (names.empty()) TUTTI_RETURN_IF_ERROR(check_sizes(node, *values[i], *constraint));
        TUTTI_RETURN_IF_ERROR(out.add(node, is_output, i, *constraint));
      }
    }
    return {};
  };
  for (const auto& node : graph.nodes()) {
    TUTTI_RETURN_IF_ERROR(add_operands(*node, false));
    TUTTI_RETURN_IF_ERROR(add_operands(*node, true));
  }
  return out;
}

Status AxisConstraints::add(const Node& node, bool is_output, std::size_t index,
                            const LayoutConstraint& source) {
  OperandDemand demand;
  demand.is_output = is_output;
  demand.index = index;
  demand.source = &source;
  const Value& value = *(is_output ? node.output(index) : node.input(index));
  const int rank = static_cast<int>(value.rank());
  const auto whole_dim = [&](int dim) { return dim < 0 ? dim + rank : dim; };
  const std::string subject = str_cat(node.describe(), ": the annotation of '", source.value, "'");
  for (const ConstraintSplit& split : source.splits) {
    const int dim = whole_dim(split.dim);
    if (dim < 0 || dim >= rank) {
      return invalid_argument(subject, " splits dimension ", split.dim, ", which ", value.type(),
                              " does not have");
    }
    for (const ConstraintSplit& other : source.splits) {
      if (other.dim == split.dim || whole_dim(other.dim) != dim) continue;
      return invalid_argument(subject, " splits dimension ", dim, " twice: as ", split.dim,
                              " and as ", other.dim);
    }
    if (split.axis != mesh_->axes()[static_cast<std::size_t>(axis_)].name) continue;
    demand.dim = dim;
    demand.shards = split.shards;
    demand.units = split.units;
  }
  demands_[&node].push_back(demand);
  return {};
}

const std::vector<OperandDemand>* AxisConstraints::find(const Node& node) const {
  const auto it = demands_.find(&node);
  return it == demands_.end() ? nullptr : &it->second;
}

bool AxisConstraints::allows(const Node& node, const FactorMap& map,
                             const FactorSplit* split) const {
  const std::vector<OperandDemand>* demands = find(node);
  if (demands == nullptr) return true;
  const std::int64_t ranks = mesh_->size(axis_);
  return std::all_of(demands->begin(), demands->end(), [&](const OperandDemand& demand) {
    const Layout layout = demand.is_output ? output_layout(map, demand.index, split, axis_)
                                           : input_layout(map, demand.index, split, axis_);
    if (demand.dim < 0) return layout.splits.empty();
    if (layout.splits.empty() || layout.splits[0].dim != demand.dim) return false;
    const Split& found = layout.splits[0];
    if (demand.shards == ranks) {
      const bool is_even = exact_div(found.units, Dim(ranks)).has_value();
      const bool has_units = !demand.units || found.units == *demand.units ||
                             (is_even && exact_div(*demand.units, Dim(ranks)));
      return found.replicas == 1 && found.segments.empty() && has_units;
    }
    return found.units.is(demand.shards) && found.replicas == ranks / demand.shards;
  });
}

std::vector<FactorSplit> AxisConstraints::demanded(const Node& node, const FactorMap& map) const {
  std::vector<FactorSplit> splits;
  const int ranks = mesh_->size(axis_);
  for (const OperandDemand& demand : demands_.at(&node)) {
    if (demand.dim < 0) continue;
    const Value& value = *(demand.is_output ? node.output(demand.index) : node.input(demand.index));
    Split split{demand.dim, axis_, value.shape()[static_cast<std::size_t>(demand.dim)], 1};
    if (demand.units) split.units = *demand.units;
    if (demand.shards != ranks) {
      split.units = demand.shards;
      split.replicas = static_cast<int>(ranks / demand.shards);
    }
    const auto& operand = (demand.is_output ? map.outputs : map.inputs)[demand.index];
    auto found = factor_split_from(map, operand, split, ranks);
    if (found && is_possible_for(node, map, *found, ranks)) splits.push_back(*std::move(found));
  }
  return splits;
}

std::string AxisConstraints::text(const Node& node, const OperandDemand& demand) const {
  const Value& value = *(demand.is_output ? node.output(demand.index) : node.input(demand.index));
  const std::string what = str_cat(demand.is_output ? "output '" : "input '", demand.source->value,
                                   "' (", value.type(), ") ");
  if (demand.dim < 0) return what + "whole";
  const std::string blocks = demand.units ? str_cat(" of ", *demand.units, " blocks") : "";
  return str_cat(what, "split along dimension ", demand.dim, " in ", demand.shards, " shards",
                 blocks);
}

Status AxisConstraints::contradiction(const Node& node, const FactorMap& map) const {
  std::string wanted;
  for (const OperandDemand& demand : demands_.at(&node)) {
    wanted += (wanted.empty() ? "" : ", and ") + text(node, demand);
  }
  return invalid_argument(node.describe(), ": annotations want ", wanted, " along '",
                          mesh_->axes()[static_cast<std::size_t>(axis_)].name, "', but its rule ",
                          map, " allows no such split");
}

}  // namespace tutti
