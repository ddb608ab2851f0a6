// Numbers to run a plan on when only the time matters.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "cli/given_inputs.h"
#include "plan/plan.h"

namespace tutti::cli {

// Uniform in [-1, 1); integers and booleans are 0 or 1, which any embedding table has.
Status fill_random(Tensor* tensor, std::uint32_t seed);

// One tensor for each input of the plan, those of `given` as they are. Sizes that neither `sizes`
// nor given inputs have are the plan's best ones; one that has none is an error that names the
// input.
Result<std::vector<Tensor>> random_inputs(const Plan& plan, SymbolMap sizes,
                                          const GivenInputs& given = {});

}  // namespace tutti::cli
