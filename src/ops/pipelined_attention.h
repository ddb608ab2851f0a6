// PipelinedAttention: attention between two exchanges. Plans never hold it; a program makes it from
// their nodes where its device overlaps them (runtime/pipelines.h).
#pragma once

#include "graph/op_def.h"

namespace tutti {

const OpDef& pipelined_attention_op();

}  // namespace tutti
