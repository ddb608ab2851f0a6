#include "compiler/strategy.h"

#include <algorithm>
#include <charconv>

namespace tutti {
namespace {

Split whole_units(const Value& value, int dim, int axis) {
  return Split{dim, axis, value.shape()[static_cast<std::size_t>(dim)], 1};
}

void seed_cfg(const Graph& graph, int axis, AxisSeeds* seeds) {
  const auto batch = batch_size(graph);
  if (!batch) return;
  for (const Value* input : graph.inputs()) {
    if (input->rank() == 0 || input->shape()[0] != *batch) continue;
    seeds->labels.emplace_back(input, whole_units(*input, 0, axis));
  }
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
  const std::string& name = options.mesh.axes()[static_cast<std::size_t>(axis)].name;
  const auto it = options.strategies.find(name);
  if (it != options.strategies.end()) {
    if (it->second == "ulysses" || it->second == "cfg" || it->second == "none") return it->second;
    return invalid_argument("mesh axis '", name, "': strategy '", it->second,
                            "' is unknown; expected ulysses, cfg or none");
  }
  if (name == "cp") return std::string("ulysses");
  if (name == "cfg") return std::string("cfg");
  return std::string("none");
}

Result<AxisSeeds> seeds_for_axis(const Graph& graph, const CompileOptions& options, int axis) {
  TUTTI_ASSIGN_OR_RETURN(const std::string strategy, strategy_of(options, axis));
  AxisSeeds seeds;
  for (const LayoutSeed& seed : options.seeds) {
    if (options.mesh.find(seed.axis) != axis) continue;
    TUTTI_RETURN_IF_ERROR(check_seed(graph, seed));
    const Value* value = graph.find_value(seed.value);
    seeds.labels.emplace_back(value, whole_units(*value, seed.dim, axis));
  }
  if (strategy == "ulysses") seed_ulysses(graph, options, axis, &seeds);
  if (strategy == "cfg") seed_cfg(graph, axis, &seeds);
  return seeds;
}

Status check_options(const Graph& graph, const CompileOptions& options) {
  if (options.registry == nullptr) return internal_error("compile options without a registry");
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
