// A region of pointwise nodes as a list of loops over blocks.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/pointwise_loops.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace tutti::cpu {

// Where a loop finds a block.
struct BlockRef {
  enum class Kind { kNone, kInput, kConstant, kTemporary, kOutput };
  Kind kind = Kind::kNone;
  int index = 0;
};

struct PointwiseStep {
  PointwiseOp op;
  BlockRef in[3];
  BlockRef out;
};

// Input and output blocks are in compute types: who runs the program converts 16-bit floats.
struct PointwiseProgram {
  std::vector<PointwiseStep> steps;
  std::vector<Tensor> constants;  // scalars in their compute type
  int temporaries = 0;            // blocks needed between loops
  std::size_t element_size = 4;   // bytes of the widest compute type that occurs
  int cost = 0;                   // of one element, in additions
};

// For one pointwise node, or an ai.tutti.Pointwise region. `constants[i]` is input i when it is
// constant, null otherwise. Errors: an operator or element type without a loop.
Result<PointwiseProgram> compile_pointwise(const Node& node,
                                           std::span<const Tensor* const> constants);

}  // namespace tutti::cpu
