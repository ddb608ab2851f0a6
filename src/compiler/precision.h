// What of an fp32 graph keeps its precision when the rest is converted to 16 bit.
#pragma once

#include <unordered_set>

#include "graph/graph.h"

namespace tutti {

// The f32 values (inputs and outputs of nodes, not constants) that stay f32, and the nodes that
// work on f32 operands:
// - Angles: inputs that reach a Sin or Cos without a product in between, or hold one number a batch
//   element (time steps, guidance); counts and numbers cast from integers; what is computed from
//   nothing but those and constants, up to the first product, norm or operand of 16 bit.
// - Statistics: sums, means and the like (Reduce but for its maximum and minimum, CumSum), the
//   pointwise nodes that only they read, and what is computed from nothing but them.
// Products, convolutions, attention, norms, softmax and looked-up rows of tables always give 16
// bit: their kernels accumulate in f32.
struct FullPrecision {
  std::unordered_set<const Value*> values;
  std::unordered_set<const Node*> nodes;
};
FullPrecision full_precision(const Graph& graph);

}  // namespace tutti
