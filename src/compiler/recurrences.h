// Recurrences that are written out, step by step: a state times what one row of a sequence says,
// plus something, is the next state (linear attention with decay or a delta rule over frames, Yang
// et al. 2024). Pieces of the sequence would wait for each other; heads do not.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tutti {

// What the steps read a row of, and the dimension that all of a step's products only go along with.
struct RecurrenceRows {
  const Value* rows = nullptr;
  int heads = 0;
};

// Of all recurrences in the graph, in order: of two steps or more, each of which multiplies the
// state before it with a row of the same value. Heads are the largest such dimension; its size is
// constant.
std::vector<RecurrenceRows> recurrence_rows(const Graph& graph);

}  // namespace tutti
