// Inputs of a model that the command line gives as files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "plan/plan.h"

namespace tutti::cli {

using GivenInputs = std::map<std::string, Tensor>;

// Of NAME=FILE.npy each. Errors name the flag: a name that is given twice or that the plan has not,
// a file that cannot be read. Types and sizes are checked where they are used.
Result<GivenInputs> read_given_inputs(const std::vector<std::string>& flags, const Plan& plan);

}  // namespace tutti::cli
