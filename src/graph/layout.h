// Where the pieces of a value live: which dimensions are split over which mesh axes.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/mesh.h"

namespace tutti {

// Dimension `dim` is cut into `units` equal, contiguous units (units divides its size) and each
// unit stands `replicas` times in a row; the ranks along `axis` hold the balanced pieces (see
// `part`) of units * replicas. Uneven pieces are real: no rank pads, a rank may hold nothing.
// Attention with 4 key/value heads over 8 ranks: units 4, replicas 2, so ranks 0 and 1 hold head 0.
struct Split {
  int dim = 0;
  int axis = 0;
  Dim units = 0;
  int replicas = 1;

  bool operator==(const Split&) const = default;
};

// At most one split a dimension and one a mesh axis. No splits and no partial axes: replicated.
struct Layout {
  std::vector<Split> splits;      // sorted by mesh axis
  std::vector<int> partial_axes;  // the value is the sum over these axes; sorted

  bool is_replicated() const { return splits.empty() && partial_axes.empty(); }
  const Split* on_axis(int axis) const;
  const Split* on_dim(int dim) const;
  void set(Split split);  // replaces the split on the same axis
  void remove_axis(int axis);

  bool operator==(const Layout&) const = default;
  // "[batch, t/cp, 512]", "[batch, 8/cp(units 4, x2), t]", "sum(tp) [t, 512]", with global sizes.
  std::string to_string(const Shape& shape, const Mesh& mesh) const;
};

// Sizes that one rank holds, as Dims over the mesh's rank symbols.
Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh);

}  // namespace tutti
