#include "cli/load_plan.h"

#include <algorithm>
#include <cstdio>

namespace tutti::cli {

Result<LoadedPlan> load_plan(const ModelOptions& options, const BackendOptions& backend,
                             int threads) {
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
  TUTTI_ASSIGN_OR_RETURN(ChosenBackend chosen, choose_backend(backend));
  if (!chosen.no_gpu.empty()) {
    std::fprintf(stderr, "%s; running on CPU\n", chosen.no_gpu.c_str());
  }
  loaded.backend = std::move(chosen.backend);
  const int ranks = loaded.plan->mesh.num_ranks();
  RankGroupOptions group;
  for (int rank = 0; rank < ranks; ++rank) {
    group.devices.push_back(rank % loaded.backend->device_count());
  }
  if (threads > 0) group.threads_per_rank = std::max(1, threads / ranks);
  TUTTI_ASSIGN_OR_RETURN(loaded.group, RankGroup::create(loaded.plan, *loaded.backend, group));
  return loaded;
}

}  // namespace tutti::cli
