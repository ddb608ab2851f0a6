#include "cli/load_plan.h"

#include <algorithm>

#include "backends/cpu/backend.h"

namespace tutti::cli {

Result<LoadedPlan> load_plan(const ModelOptions& options, int threads) {
  LoadedPlan loaded;
  loaded.operators = std::make_unique<Operators>();
  if (options.model.ends_with(".onnx")) {
    TUTTI_ASSIGN_OR_RETURN(PlannedModel planned,
                           plan_model(options, *loaded.operators, Progress()));
    loaded.plan = std::make_shared<const Plan>(std::move(planned.plan));
  } else {
    TUTTI_ASSIGN_OR_RETURN(Plan plan, read_plan(options.model, loaded.operators->ops));
    loaded.plan = std::make_shared<const Plan>(std::move(plan));
  }
  loaded.backend = cpu::make_cpu_backend();
  const int ranks = loaded.plan->mesh.num_ranks();
  RankGroupOptions group;
  group.devices.assign(static_cast<std::size_t>(ranks), 0);
  if (threads > 0) group.threads_per_rank = std::max(1, threads / ranks);
  TUTTI_ASSIGN_OR_RETURN(loaded.group, RankGroup::create(loaded.plan, *loaded.backend, group));
  return loaded;
}

}  // namespace tutti::cli
