#include "compiler/layout.h"

namespace tutti {

Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options) {
  FactorMaps maps;
  for (const auto& node : graph.nodes()) maps.emplace(node.get(), factors_of(*node));
  Sharding sharding;
  const int axes = static_cast<int>(options.mesh.axes().size());
  for (int axis = 0; axis < axes; ++axis) {
    if (options.mesh.size(axis) == 1) continue;
    TUTTI_ASSIGN_OR_RETURN(const AxisSeeds seeds, seeds_for_axis(graph, options, axis));
    const Labels labels = spread_labels(graph, options.mesh, axis, maps, sharding, seeds.labels);
    choose_splits(graph, options, axis, maps, labels, seeds, &sharding);
    for (const auto& [value, split] : labels) sharding.preferred[value].set(split);
  }
  return sharding;
}

}  // namespace tutti
