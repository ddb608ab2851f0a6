// Nodes that stand for several others, which their body holds. Plans never hold them; a program
// makes them where its device runs the others as one (runtime/joined_nodes.h).
#pragma once

#include "graph/op_def.h"

namespace tutti {

// Attention between two exchanges (runtime/pipelines.h).
const OpDef& pipelined_attention_op();

// An exchange and the nodes that compute what it moves (runtime/fused_exchanges.h).
const OpDef& fused_exchange_op();

}  // namespace tutti
