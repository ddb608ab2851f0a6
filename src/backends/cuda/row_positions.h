// Where the elements of a row come from: movements inside a row, as numbers.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tutti::cuda {

// Places in a row of a value, row-major over its dimensions behind the lead; -1 where nobody asks.
using Positions = std::vector<std::int64_t>;

// One operand of a movement, and where in its row each place of the result comes from.
struct MovedFrom {
  std::size_t operand = 0;
  Positions positions;
};

// What the places `wanted` of output `output` of a Reshape, Transpose, Slice, Split or Concat are
// read from: one entry an operand that any of them comes from. `lead` dimensions stay as they are;
// `inputs` and `outputs` are the node's with bound sizes. UNIMPLEMENTED for other operators, and
// for movement of lead dimensions.
Result<std::vector<MovedFrom>> moved_from(const Node& node, std::size_t output,
                                          const std::vector<Dims>& inputs,
                                          const std::vector<Dims>& outputs, std::size_t lead,
                                          const SymbolMap& symbols, const Positions& wanted);

// Places of an operand whose dimensions `operand` broadcast to `result`, both without the lead.
Positions broadcast_positions(const Dims& result, const Dims& operand, const Positions& wanted);

}  // namespace tutti::cuda
