#include "compiler/layout.h"

#include "compiler/attention_exchange.h"

namespace tutti {

namespace {

// Leaves windows to convolutions and their like.
void keep_rows(FactorMap* map) {
  for (const FactorWindow& window : map->windows) {
    if (!window.map.only_moves()) continue;
    map->factors[static_cast<std::size_t>(window.output)].role = FactorRole::kWhole;
  }
  std::erase_if(map->windows, [](const FactorWindow& window) { return window.map.only_moves(); });
}

}  // namespace

FactorMaps factor_maps(const Graph& graph, bool moves_rows) {
  FactorMaps maps;
  for (const auto& node : graph.nodes()) {
    FactorMap map = factors_of(*node);
    if (!moves_rows) keep_rows(&map);
    maps.emplace(node.get(), std::move(map));
  }
  return maps;
}

std::optional<Sharding> outcome_of(const Graph& graph, const CompileOptions& options, int axis,
                                   const FactorMaps& maps, const AxisSeeds& seeds) {
  const auto constraints = AxisConstraints::create(graph, options, axis, {});
  if (!constraints.ok()) return std::nullopt;
  const Labels labels = spread_labels(graph, options.mesh, axis, maps, seeds);
  auto sharding = choose_splits(graph, options, axis, maps, labels, seeds, *constraints);
  if (!sharding.ok()) return std::nullopt;
  return *std::move(sharding);
}

bool is_better(const Sharding& a, const Sharding& b) {
  constexpr double kNearly = 1.1;
  if (a.busiest_flops * kNearly < b.busiest_flops) return true;
  return a.busiest_flops < b.busiest_flops * kNearly && a.sent_bytes < b.sent_bytes;
}

Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options, int axis,
                                   const NameMap& whole_names,
                                   std::vector<AttentionChoice>* choices) {
  TUTTI_ASSIGN_OR_RETURN(const AxisSeeds seeds, seeds_for_axis(graph, options, axis));
  const FactorMaps maps = factor_maps(graph, seeds.moves_rows);
  TUTTI_ASSIGN_OR_RETURN(const AxisConstraints constraints,
                         AxisConstraints::create(graph, options, axis, whole_names));
  const Labels labels = spread_labels(graph, options.mesh, axis, maps, seeds);
  TUTTI_ASSIGN_OR_RETURN(Sharding sharding,
                         choose_splits(graph, options, axis, maps, labels, seeds, constraints));
  // Annotations and seeds by hand are to be kept, and weights in pieces.
  const bool is_by_hand = !options.constraints.empty() || !options.seeds.empty();
  if (!is_by_hand) stay_whole(graph, options, maps, &sharding);
  if (options.constraints.empty() && seeds.split_weights.empty()) {
    gather_sooner(graph, options, maps, &sharding);
  }
  const SizeEstimate sizes(typical_sizes(graph, options));
  for (const auto& node : graph.nodes()) {
    const auto attention = seeds.attentions.find(node.get());
    if (choices == nullptr || attention == seeds.attentions.end()) continue;
    choices->push_back(
        describe_attention(*node, attention->second, maps, sharding, options, sizes));
  }
  return sharding;
}

}  // namespace tutti
