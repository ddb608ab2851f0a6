#include "cli/tune.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/artifact_report.h"
#include "cli/load_plan.h"
#include "cli/random_inputs.h"

namespace tutti::cli {
namespace {

// The first run measures, the second is recorded.
constexpr int kRuns = 2;

struct TuneCommand {
  std::string plan;
  BackendOptions backend;
  std::vector<std::string> sizes;
};

Status run_tune(const TuneCommand& command) {
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap sizes, parse_sizes("--size", command.sizes));
  if (command.plan.ends_with(".onnx")) {
    return invalid_argument("'", command.plan, "' is a model; compile it first");
  }
  ModelOptions model;
  model.model = command.plan;
  TUTTI_ASSIGN_OR_RETURN(const LoadedPlan loaded, load_plan(model, command.backend, 0));
  if (loaded.backend->name() == "cpu") {
    return unavailable("the cpu backend measures nothing; run this where the GPU is");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, random_inputs(*loaded.plan, sizes));
  for (int run = 0; run < kRuns; ++run) TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, {}));
  std::vector<Artifact> artifacts = loaded.plan->artifacts;
  merge_artifacts(loaded.backend->artifacts(), &artifacts);
  TUTTI_RETURN_IF_ERROR(replace_artifacts(command.plan, artifacts));
  std::printf("wrote %s:\n", command.plan.c_str());
  for (const ArtifactGroup& group : group_artifacts(artifacts)) {
    std::printf("  %s\n", group.text().c_str());
  }
  return {};
}

}  // namespace

std::function<int()> add_tune(CLI::App& command) {
  auto options = std::make_shared<TuneCommand>();
  command
      .add_option("plan", options->plan, "REPOSITORY/NAME/VERSION/model.plan, which is rewritten")
      ->required();
  add_backend_options(command, &options->backend);
  command.add_option("--size", options->sizes,
                     "NAME=SIZE for a symbolic dimension; those of --profile have their best size");
  return [options] {
    const Status status = run_tune(*options);
    return status.ok() ? 0 : report_error("tune", status);
  };
}

}  // namespace tutti::cli
