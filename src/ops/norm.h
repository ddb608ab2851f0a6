// What the files of the norm family share.
#pragma once

#include "ops/lowering.h"

namespace tutti {

void register_norm_lowerings(LoweringRegistry* lowerings);
void register_pointwise_norm_lowerings(LoweringRegistry* lowerings);

}  // namespace tutti
