#include "compiler/layout.h"

namespace tutti {

Result<Sharding> propagate_layouts(const Graph& graph, const CompileOptions& options, int axis,
                                   const NameMap& whole_names) {
  FactorMaps maps;
  for (const auto& node : graph.nodes()) maps.emplace(node.get(), factors_of(*node));
  TUTTI_ASSIGN_OR_RETURN(const AxisSeeds seeds, seeds_for_axis(graph, options, axis));
  TUTTI_ASSIGN_OR_RETURN(const AxisConstraints constraints,
                         AxisConstraints::create(graph, options, axis, whole_names));
  const Labels labels = spread_labels(graph, options.mesh, axis, maps, seeds.labels);
  return choose_splits(graph, options, axis, maps, labels, seeds, constraints);
}

}  // namespace tutti
