// Where the pieces of a value live: which dimensions are split over which mesh axes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/mesh.h"
#include "graph/window_map.h"

namespace tutti {

// The pieces are not of the dimension itself, but of a result of `rows` rows that reads it through
// windows: each rank holds what its piece of the result reads, overlapping what the others hold.
struct SplitWindow {
  Dim rows;
  Dim size;  // of the dimension
  WindowMap map;
  bool operator==(const SplitWindow&) const = default;
};

// Dimension `dim` is cut into `units` equal, contiguous units (units divides its size) and each
// unit stands `replicas` times in a row; the ranks along `axis` hold the balanced pieces (see
// `part`) of units * replicas. Uneven pieces are real: no rank pads, a rank may hold nothing.
// Attention with 4 key/value heads over 8 ranks: units 4, replicas 2, so ranks 0 and 1 hold head 0.
//
// `segments`, where there are any, are runs of units that are cut each by itself; a rank holds its
// piece of the first one, then its piece of the second, and so on. So the concatenation of a text
// and a video sequence, each of which is split, is split without moving anything. `grains` says of
// how many units the pieces of each segment are whole multiples: features of attention heads (64 in
// grains of 16) beside those of an MLP.
struct Split {
  int dim = 0;
  int axis = 0;
  Dim units = 0;
  int replicas = 1;
  std::vector<Dim> segments = {};          // in units; they add up to `units`, replicas is 1
  std::vector<Dim> grains = {};            // one for each segment, or none: all are 1
  std::optional<SplitWindow> window = {};  // then `units` divides its rows, and replicas is 1

  bool operator==(const Split&) const = default;
};

// At most one split a mesh axis. Splits of one dimension nest: a later one cuts the pieces that
// the earlier ones left, and its units count those of such a piece. Heads over a tensor-parallel
// axis and, inside each of its pieces, over a context-parallel one: [8/tp/cp].
// No splits and no partial axes: replicated.
struct Layout {
  std::vector<Split> splits;      // in the order of cutting
  std::vector<int> partial_axes;  // the value is the sum over these axes; sorted

  bool is_replicated() const { return splits.empty() && partial_axes.empty(); }
  const Split* on_axis(int axis) const;
  void set(Split split);  // behind the others; replaces the split on the same axis
  void remove_axis(int axis);

  bool operator==(const Layout&) const = default;
  // "[batch, t/cp, 512]", "[batch, 8/cp(units 4, x2), t]", "sum(tp) [t, 512]", with global sizes.
  std::string to_string(const Shape& shape, const Mesh& mesh) const;
};

// Segment number `index` of a split as a split of its own, of the segment's units, and how many of
// those one rank holds.
Split segment_split(const Split& split, std::size_t index);
Dim segment_piece(const Split& split, std::size_t index, const Mesh& mesh);

// Units that one rank holds of a split, each as often as it stands there.
Dim piece_units(const Split& split, const Mesh& mesh);

// Where a value of a compiled graph lives.
struct ValueLayout {
  TensorType global;
  Layout layout;
};
using LayoutTable = std::map<std::string, ValueLayout, std::less<>>;  // by value name

// An operand of a node that has to be split as given over some mesh axes and must not be over any
// other: where the node reads `value`, if it is an input, or makes it.
struct ConstraintSplit {
  int dim = 0;                    // negative: from the back
  std::string axis;               // of the mesh
  std::int64_t shards = 0;        // fewer than the axis has ranks: neighbours hold the same
  std::optional<Dim> units = {};  // as in Split; absent: cut anywhere
  bool operator==(const ConstraintSplit&) const = default;
};
// What an annotation takes the size of a dimension to be.
struct ConstraintSize {
  int dim = 0;
  Dim size;
};
struct LayoutConstraint {
  std::string node;
  std::string value;
  std::vector<ConstraintSplit> splits;  // of one dimension: major ones first
  std::vector<ConstraintSize> sizes = {};
};

// Sizes that one rank holds, as Dims over the mesh's rank symbols.
Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh);

}  // namespace tutti
