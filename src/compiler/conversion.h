// How a value gets from one layout along a mesh axis to another.
#pragma once

#include <vector>

#include "graph/layout.h"

namespace tutti {

enum class StepKind {
  kSlice,          // replicated -> split, nothing moves
  kAllToAll,       // split -> split along another dimension
  kGather,         // split -> replicated
  kHalo,           // split -> other pieces along the same dimension, maybe what windows read
  kAllReduce,      // partial sums -> replicated
  kReduceScatter,  // partial sums -> split
};

struct ConversionStep {
  StepKind kind = StepKind::kSlice;
  int axis = 0;
  Split from;  // kAllToAll, kGather, kHalo
  Split to;    // kSlice, kAllToAll, kReduceScatter, kHalo
};

// The ranks hold the same pieces: equal splits, or even ones in different units.
bool same_pieces(const Split& a, const Split& b, const Mesh& mesh);
bool same_pieces(const Layout& a, const Layout& b, const Mesh& mesh);

// What a piece of a dimension of `size` rows holds, as windows: of one row each if it has none.
SplitWindow window_read(const Split& split, const Dim& size);

// Pieces that windows read overlap, and nothing is made of them but what reads them.
bool has_windows(const Layout& layout);

// Steps one after the other. `from` has no windows. Both layouts are along the same one axis, `to`
// is no partial sum. Empty when the layouts have the same pieces.
std::vector<ConversionStep> conversion_steps(const Layout& from, const Layout& to,
                                             const Mesh& mesh);

// The layout after a step.
Layout after_step(Layout layout, const ConversionStep& step);

// Elements that a rank sends to others in a step, over sizes and rank symbols. `before` is the
// layout that the step starts from. Sums over ranks are exact; a piece of a replicated unit is
// counted at all of its holders, each with its share.
Dim sent_elements(const ConversionStep& step, const Shape& global, const Layout& before,
                  const Mesh& mesh);

}  // namespace tutti
