// Between the files of the pointwise family.
#pragma once

#include "ops/lowering.h"

namespace tutti {

// Elements of integer results (and of truth values as 0 and 1, and of floats that hold whole
// numbers, which exporters compute sizes in) from those of the operands.
std::optional<std::vector<Dim>> pointwise_symbolic(const Node& node);

void register_pointwise_lowerings(LoweringRegistry* lowerings);

}  // namespace tutti
