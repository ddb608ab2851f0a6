// Spatial parallelism: one dimension of space or time is split through all convolutions.
#include <algorithm>
#include <limits>

#include "compiler/cost.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

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

class DimensionChoice {
 public:
  DimensionChoice(const CompileOptions& options, int axis, SizeEstimate size)
      : rates_(options.rates), ranks_(options.mesh.size(axis)), size_(std::move(size)) {}

  // What a convolution takes with its output split along `dim`.
  double seconds(const Node& node, std::size_t dim) const {
    const FactorMap map = factors_of(node);
    const double work = size_(node_flops(node)) / rates_.flops_per_second;
    const int factor = split_factor(map, dim);
    if (factor < 0) return work;
    const double rows = std::max(1.0, size_(map.factors[static_cast<std::size_t>(factor)].size));
    const double share =
        static_cast<double>((static_cast<std::int64_t>(rows) + ranks_ - 1) / ranks_);
    const FactorWindow* window = map.window_of(map.inputs[0][dim]);
    const double halo = window == nullptr ? 0 : halo_seconds(*node.input(0), dim, window->map);
    return work * share / rows + halo;
  }

 private:
  // The rows of its neighbours that a rank inside needs.
  double halo_seconds(const Value& x, std::size_t dim, const WindowMap& map) const {
    const double rows = static_cast<double>(std::max<std::int64_t>(map.extent - map.stride, 0));
    double row_bytes = static_cast<double>(dtype_size(x.dtype()));
    for (std::size_t d = 0; d < x.rank(); ++d) row_bytes *= d == dim ? 1.0 : size_(x.shape()[d]);
    return rows * row_bytes / rates_.bytes_per_second + rates_.seconds_per_exchange;
  }

  const CostRates& rates_;
  std::int64_t ranks_;
  SizeEstimate size_;
};

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

}  // namespace

std::optional<SpatialDimension> spatial_dimension(const Graph& graph, const CompileOptions& options,
                                                  int axis) {
  std::vector<const Node*> convolutions = convolutions_of(graph);
  if (convolutions.empty()) return std::nullopt;
  const SizeEstimate size(typical_sizes(graph, options));
  const std::size_t rank = heaviest_rank(convolutions, size);
  bool is_given = false;
  for (const LayoutSeed& seed : options.seeds) {
    if (options.mesh.find(seed.axis) != axis) continue;
    const Value* value = graph.find_value(seed.value);
    if (value != nullptr && value->rank() == rank && seed.dim >= 2) {
      return SpatialDimension{rank, static_cast<std::size_t>(seed.dim)};
    }
    is_given = true;
  }
  if (is_given) return std::nullopt;
  std::erase_if(convolutions, [rank](const Node* node) { return rank_of(*node) != rank; });
  const DimensionChoice choice(options, axis, size);
  std::optional<SpatialDimension> best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t candidate : spatial_dimensions(rank)) {
    double seconds = 0;
    for (const Node* node : convolutions) seconds += choice.seconds(*node, candidate);
    if (seconds >= least) continue;
    least = seconds;
    best = SpatialDimension{rank, candidate};
  }
  return best;
}

void seed_spatial(const Graph& graph, const CompileOptions& options, int axis, AxisSeeds* seeds) {
  const auto chosen = spatial_dimension(graph, options, axis);
  if (!chosen) return;
  // Each result by itself, so that every resolution is shared out evenly: what its pieces lack of
  // those of the one before comes with the halo.
  for (const Node* node : convolutions_of(graph)) {
    if (rank_of(*node) != chosen->rank) continue;
    const FactorMap map = factors_of(*node);
    const int factor = split_factor(map, chosen->dim);
    if (factor < 0) continue;
    const Dim& rows = map.factors[static_cast<std::size_t>(factor)].size;
    seeds->labels.emplace_back(node->output(), Split{static_cast<int>(chosen->dim), axis, rows, 1});
  }
}

}  // namespace tutti
