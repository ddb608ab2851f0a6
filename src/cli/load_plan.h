// Gives `run` and `bench` a rank group for a plan file, or for an ONNX file compiled in memory.
#pragma once

#include <memory>

#include "cli/backend_options.h"
#include "cli/model_options.h"
#include "runtime/rank_group.h"

namespace tutti::cli {

// What the group stands on; keep it as long as the group.
struct LoadedPlan {
  std::unique_ptr<Operators> operators;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<RankGroup> group;
};

// A path that ends in .onnx is compiled with `options`, anything else is read as a plan. Ranks take
// the backend's devices in turn. `threads` of all ranks together; 0: as many as the machine has.
Result<LoadedPlan> load_plan(const ModelOptions& options, const BackendOptions& backend,
                             int threads);

}  // namespace tutti::cli
