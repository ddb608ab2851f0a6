// Spatial parallelism: one dimension of space or time is split through all convolutions.
#include <algorithm>

#include "compiler/constraints.h"
#include "compiler/cost.h"
#include "compiler/layout.h"

namespace tutti {
namespace {

bool is_convolution(const Node& node) {
  return node.type() == "Conv" || node.type() == "ConvTranspose";
}

std::size_t rank_of(const Node& node) { return node.input(0)->rank(); }

// The factor that a split of the output along `dim` cuts: one that is read through windows, or that
// passes through. -1: it has to be whole.
int split_factor(const FactorMap& map, std::size_t dim) {
  const std::vector<int>& factors = map.outputs[0][dim];
  if (factors.empty()) return -1;
  const FactorRole role = map.factors[static_cast<std::size_t>(factors[0])].role;
  return role == FactorRole::kWindow || role == FactorRole::kParallel ? factors[0] : -1;
}

// The number of dimensions in which most convolution work is done: video, images, sound.
std::size_t heaviest_rank(const std::vector<const Node*>& convolutions, const SizeEstimate& size) {
  std::map<std::size_t, double> work;
  for (const Node* node : convolutions) work[rank_of(*node)] += size(node_flops(*node));
  const auto best = std::max_element(
      work.begin(), work.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return best->first;
}

// Dimensions of space by preference among equals: rows of images lie together in memory, frames are
// fewest.
std::vector<std::size_t> spatial_dimensions(std::size_t rank) {
  std::vector<std::size_t> dims;
  if (rank > 3) dims.push_back(rank - 2);
  dims.push_back(rank - 1);
  for (std::size_t d = 2; d + 2 < rank; ++d) dims.push_back(d);
  return dims;
}

std::vector<const Node*> convolutions_of(const Graph& graph) {
  std::vector<const Node*> convolutions;
  for (const auto& node : graph.nodes()) {
    if (is_convolution(*node)) convolutions.push_back(node.get());
  }
  return convolutions;
}

// Each result by itself, so that every resolution is shared out evenly: what its pieces lack of
// those of the one before comes with the halo.
void add_labels(const Graph& graph, const SpatialDimension& space, int axis, AxisSeeds* seeds) {
  for (const Node* node : convolutions_of(graph)) {
    if (rank_of(*node) != space.rank) continue;
    const FactorMap map = factors_of(*node);
    const int factor = split_factor(map, space.dim);
    if (factor < 0) continue;
    const Dim& rows = map.factors[static_cast<std::size_t>(factor)].size;
    seeds->labels.emplace_back(node->output(), Split{static_cast<int>(space.dim), axis, rows, 1});
  }
}

// The dimension of the seed by hand, if any splits space; `is_given`: there is a seed.
std::optional<SpatialDimension> given_dimension(const Graph& graph, const CompileOptions& options,
                                                int axis, std::size_t rank, bool* is_given) {
  *is_given = false;
  for (const LayoutSeed& seed : options.seeds) {
    if (options.mesh.find(seed.axis) != axis) continue;
    *is_given = true;
    const Value* value = graph.find_value(seed.value);
    if (value != nullptr && value->rank() == rank && seed.dim >= 2) {
      return SpatialDimension{rank, static_cast<std::size_t>(seed.dim)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<SpatialDimension> spatial_dimension(const Graph& graph, const CompileOptions& options,
                                                  int axis) {
  const std::vector<const Node*> convolutions = convolutions_of(graph);
  if (convolutions.empty()) return std::nullopt;
  const std::size_t rank = heaviest_rank(convolutions, SizeEstimate(typical_sizes(graph, options)));
  bool is_given = false;
  const auto given = given_dimension(graph, options, axis, rank, &is_given);
  if (is_given) return given;
  const FactorMaps maps = factor_maps(graph, true);
  std::optional<SpatialDimension> best;
  Sharding best_outcome;
  for (const std::size_t dim : spatial_dimensions(rank)) {
    AxisSeeds seeds;
    seeds.moves_rows = true;
    add_labels(graph, {rank, dim}, axis, &seeds);
    const auto found = outcome_of(graph, options, axis, maps, seeds);
    if (!found || (best && !is_better(*found, best_outcome))) continue;
    best = SpatialDimension{rank, dim};
    best_outcome = *found;
  }
  return best;
}

void seed_spatial(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds) {
  seeds->moves_rows = true;
  if (const auto chosen = spatial_dimension(graph, options, axis)) {
    add_labels(graph, *chosen, axis, seeds);
  }
}

}  // namespace tutti
