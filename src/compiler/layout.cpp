#include "compiler/layout.h"

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

Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options, int axis,
                                   const NameMap& whole_names) {
  TUTTI_ASSIGN_OR_RETURN(const AxisSeeds seeds, seeds_for_axis(graph, options, axis));
  FactorMaps maps;
  for (const auto& node : graph.nodes()) {
    FactorMap map = factors_of(*node);
    if (!seeds.moves_rows) keep_rows(&map);
    maps.emplace(node.get(), std::move(map));
  }
  TUTTI_ASSIGN_OR_RETURN(const AxisConstraints constraints,
                         AxisConstraints::create(graph, options, axis, whole_names));
  const Labels labels = spread_labels(graph, options.mesh, axis, maps, seeds);
  return choose_splits(graph, options, axis, maps, labels, seeds, constraints);
}

}  // namespace tutti
