// Values that a rank knows before anything runs: constants and its own pieces of them.
#pragma once

#include "graph/graph.h"

namespace tutti {

// The constant that `value` is, or that it is a rank's piece of: ShardSlice nodes over a constant.
// Null: it is neither. Such pieces are never computed; a rank cuts them when it loads a plan.
const Value* sliced_constant(const Value& value);

// `node` cuts a constant.
bool cuts_constant(const Node& node);

}  // namespace tutti
