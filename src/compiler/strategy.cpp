#include "compiler/strategy.h"

#include <algorithm>
#include <charconv>

namespace tutti {
namespace {

Split whole_units(const Value& value, int dim, int axis) {
  return Split{dim, axis, value.shape()[static_cast<std::size_t>(dim)], 1};
}

struct Strategy {
  std::string_view name;
  std::string_view axis;  // that takes it by default
  int order;              // in which axes distribute the graph
  // May be null.
  void (*seed)(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds);
};

constexpr Strategy kStrategies[] = {
    {"cfg", "cfg", 1, seed_cfg},        {"tensor", "tp", 0, seed_tensor},
    {"ulysses", "cp", 2, seed_ulysses}, {"spatial", "sp", 2, seed_spatial},
    {"none", "", 1, nullptr},
};

const Strategy* find_strategy(std::string_view name) {
  const auto it = std::find_if(std::begin(kStrategies), std::end(kStrategies),
                               [&](const Strategy& strategy) { return strategy.name == name; });
  return it == std::end(kStrategies) ? nullptr : it;
}

// Null: what the options name is none.
const Strategy* strategy_for(const CompileOptions& options, int axis) {
  const std::string& name = options.mesh.axes()[static_cast<std::size_t>(axis)].name;
  const auto given = options.strategies.find(name);
  if (given != options.strategies.end()) return find_strategy(given->second);
  for (const Strategy& strategy : kStrategies) {
    if (strategy.axis == name) return &strategy;
  }
  return find_strategy("none");
}

std::string strategy_names() {
  std::string text;
  for (const Strategy& strategy : kStrategies) {
    const bool is_last = &strategy + 1 == std::end(kStrategies);
    text += str_cat(text.empty() ? "" : is_last ? " or " : ", ", strategy.name);
  }
  return text;
}

Status check_seed(const Graph& graph, const LayoutSeed& seed) {
  const Value* value = graph.find_value(seed.value);
  if (value == nullptr) {
    return not_found(
        "seed '", seed.value, ":", seed.dim, "=", seed.axis,
        "': the simplified graph has no value of this name; `tutti inspect` lists them");
  }
  if (seed.dim < 0 || seed.dim >= static_cast<int>(value->rank())) {
    return invalid_argument("seed '", seed.value, "': dimension ", seed.dim, " is outside [0, ",
                            value->rank(), ") of ", value->type());
  }
  return {};
}

// What is annotated is also where propagation starts, so that neighbours follow.
void seed_constraints(const Graph& graph, const CompileOptions& options, int axis,
                      AxisSeeds* seeds) {
  const MeshAxis& along = options.mesh.axes()[static_cast<std::size_t>(axis)];
  for (const LayoutConstraint& constraint : options.constraints) {
    const Value* value = graph.find_value(constraint.value);
    if (value == nullptr) continue;
    const int rank = static_cast<int>(value->rank());
    for (const ConstraintSplit& split : constraint.splits) {
      const int dim = split.dim < 0 ? split.dim + rank : split.dim;
      if (split.axis != along.name || dim < 0 || dim >= rank) continue;
      Split label = whole_units(*value, dim, axis);
      if (split.units) label.units = *split.units;
      if (split.shards != along.size) {
        label.units = split.shards;
        label.replicas = static_cast<int>(along.size / split.shards);
      }
      seeds->labels.emplace_back(value, std::move(label));
    }
  }
}

}  // namespace

Result<LayoutSeed> parse_seed(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  const std::size_t colon =
      equals == std::string_view::npos ? std::string_view::npos : text.rfind(':', equals);
  if (colon == std::string_view::npos || colon == 0 || equals + 1 == text.size()) {
    return invalid_argument("seed '", text, "': expected NAME:DIM=AXIS, such as w1:1=tp");
  }
  LayoutSeed seed;
  seed.value = text.substr(0, colon);
  seed.axis = text.substr(equals + 1);
  const std::string_view digits = text.substr(colon + 1, equals - colon - 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed.dim);
  if (error != std::errc() || end != digits.data() + digits.size() || seed.dim < 0) {
    return invalid_argument("seed '", text, "': '", digits, "' is not a dimension number");
  }
  return seed;
}

int token_dimension(const Node& attention) {
  return attention.attr_string("layout") == "bshd" ? 1 : 2;
}

std::optional<Dim> batch_size(const Graph& graph) {
  std::vector<std::pair<Dim, int>> counts;
  for (const Value* input : graph.inputs()) {
    if (input->rank() == 0 || input->shape()[0].is(1)) continue;
    const Dim& size = input->shape()[0];
    const auto it = std::find_if(counts.begin(), counts.end(),
                                 [&](const auto& entry) { return entry.first == size; });
    if (it == counts.end()) {
      counts.emplace_back(size, 1);
    } else {
      ++it->second;
    }
  }
  const auto best =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best == counts.end()) return std::nullopt;
  return best->first;
}

SymbolMap typical_sizes(const Graph& graph, const CompileOptions& options) {
  SymbolMap sizes = options.typical_sizes;
  const auto batch = batch_size(graph);
  if (batch && batch->as_symbol()) sizes.emplace(*batch->as_symbol(), 1);
  return sizes;
}

Result<std::string> strategy_of(const CompileOptions& options, int axis) {
  const Strategy* strategy = strategy_for(options, axis);
  if (strategy != nullptr) return std::string(strategy->name);
  const std::string& name = options.mesh.axes()[static_cast<std::size_t>(axis)].name;
  return invalid_argument("mesh axis '", name, "': strategy '", options.strategies.at(name),
                          "' is unknown; expected ", strategy_names());
}

std::string usual_axis(std::string_view strategy) {
  const Strategy* found = find_strategy(strategy);
  return std::string(found == nullptr || found->axis.empty() ? strategy : found->axis);
}

std::vector<std::string> usual_axes() {
  std::vector<std::string> axes;
  for (const Strategy& strategy : kStrategies) {
    if (!strategy.axis.empty()) axes.emplace_back(strategy.axis);
  }
  return axes;
}

std::vector<int> distribution_order(const CompileOptions& options) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(options.mesh.axes().size()); ++axis) {
    if (options.mesh.size(axis) > 1) axes.push_back(axis);
  }
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) {
    return strategy_for(options, a)->order < strategy_for(options, b)->order;
  });
  return axes;
}

void seed_cfg(const Graph& graph, const CompileOptions& /*options*/, int axis, AxisSeeds* seeds) {
  const auto batch = batch_size(graph);
  if (!batch) return;
  for (const Value* input : graph.inputs()) {
    if (input->rank() == 0 || input->shape()[0] != *batch) continue;
    seeds->labels.emplace_back(input, whole_units(*input, 0, axis));
  }
}

Result<AxisSeeds> seeds_for_axis(const Graph& graph, const CompileOptions& options, int axis) {
  TUTTI_RETURN_IF_ERROR(strategy_of(options, axis));
  AxisSeeds seeds;
  for (const LayoutSeed& seed : options.seeds) {
    if (options.mesh.find(seed.axis) != axis) continue;
    TUTTI_RETURN_IF_ERROR(check_seed(graph, seed));
    const Value* value = graph.find_value(seed.value);
    seeds.labels.emplace_back(value, whole_units(*value, seed.dim, axis));
  }
  seed_constraints(graph, options, axis, &seeds);
  const Strategy& strategy = *strategy_for(options, axis);
  if (strategy.seed != nullptr) strategy.seed(graph, options, axis, &seeds);
  return seeds;
}

Status check_options(const Graph& graph, const CompileOptions& options) {
  if (options.registry == nullptr) return internal_error("compile options without a registry");
  if (options.auto_ranks > 0 && !(options.seeds.empty() && options.strategies.empty())) {
    return invalid_argument("an automatic mesh takes neither seeds nor strategies of axes");
  }
  for (const auto& [axis, strategy] : options.strategies) {
    if (options.mesh.find(axis) < 0) {
      return invalid_argument("strategy '", strategy, "' is for mesh axis '", axis,
                              "', which mesh '", options.mesh, "' does not have");
    }
  }
  for (int axis = 0; axis < static_cast<int>(options.mesh.axes().size()); ++axis) {
    TUTTI_RETURN_IF_ERROR(strategy_of(options, axis));
  }
  for (const LayoutSeed& seed : options.seeds) {
    if (options.mesh.find(seed.axis) >= 0) continue;
    return invalid_argument("seed '", seed.value, "': mesh '", options.mesh, "' has no axis '",
                            seed.axis, "'");
  }
  for (const std::string& name : options.invariant_inputs) {
    const Value* value = graph.find_value(name);
    if (value != nullptr && value->is_input()) continue;
    std::vector<std::string> names;
    for (const Value* input : graph.inputs()) names.push_back(input->name());
    return not_found("invariant input '", name, "' is no input of the model, which has ", names);
  }
  return {};
}

}  // namespace tutti
