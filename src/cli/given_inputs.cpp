#include "cli/given_inputs.h"

#include <algorithm>

#include "cli/model_options.h"
#include "onnx/numpy_io.h"

namespace tutti::cli {

Result<GivenInputs> read_given_inputs(const std::vector<std::string>& flags, const Plan& plan) {
  GivenInputs given;
  for (const std::string& flag : flags) {
    TUTTI_ASSIGN_OR_RETURN(const auto pair, split_assignment("--input", flag));
    const std::string& name = pair.first;
    if (std::none_of(plan.inputs.begin(), plan.inputs.end(),
                     [&](const PlanTensor& input) { return input.name == name; })) {
      return invalid_argument("--input '", name, "': the model has no such input");
    }
    auto tensor = read_npy(pair.second);
    if (!tensor.ok()) return tensor.status().with_context(str_cat("--input ", name));
    if (!given.emplace(name, *std::move(tensor)).second) {
      return invalid_argument("--input '", name, "' is given twice");
    }
  }
  return given;
}

}  // namespace tutti::cli
