// From what the compiler made to what a plan file holds.
#pragma once

#include "cli/model_options.h"
#include "compiler/compile.h"
#include "plan/plan.h"

namespace tutti::cli {

// The source hash is that of the ONNX file `options.model`.
Result<Plan> make_plan(CompiledModel compiled, const ModelOptions& options);

}  // namespace tutti::cli
