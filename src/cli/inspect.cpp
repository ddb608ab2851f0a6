#include "cli/inspect.h"

#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/backend_options.h"
#include "cli/inspect_operators.h"
#include "cli/inspect_plan.h"
#include "cli/model_options.h"

namespace tutti::cli {
namespace {

Status inspect_backends(const BackendOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const ChosenBackend chosen, choose_backend(options));
  std::printf("%s: %s\n", chosen.backend->name().c_str(), chosen.backend->describe().c_str());
  if (!chosen.no_gpu.empty()) std::printf("cuda: %s\n", chosen.no_gpu.c_str());
  return {};
}

}  // namespace

std::function<int()> add_inspect(CLI::App& command) {
  command.require_subcommand(1);
  auto options = std::make_shared<InspectPlanOptions>();
  auto operators_json = std::make_shared<bool>(false);
  CLI::App* plan = command.add_subcommand("plan", "Mesh, tensors, memory, FLOPs and exchanges");
  plan->add_option("file", options->path, "A model.plan")->required();
  plan->add_option("--size", options->sizes, "NAME=SIZE: evaluate at this size");
  plan->add_flag("--json", options->as_json, "As JSON");
  plan->add_flag("--dot", options->as_dot, "The main graph for Graphviz");
  plan->add_flag("--text", options->as_text, "Both graphs in the text form");
  CLI::App* operators =
      command.add_subcommand("operators", "The ONNX and core operators of this build");
  operators->add_flag("--json", *operators_json, "As JSON");
  CLI::App* backends =
      command.add_subcommand("backends", "What plans would run on, or why not on a GPU");
  auto backend = std::make_shared<BackendOptions>();
  add_backend_options(*backends, backend.get());
  return [options, operators_json, plan, backends, backend] {
    if (backends->parsed()) {
      const Status status = inspect_backends(*backend);
      return status.ok() ? 0 : report_error("inspect backends", status);
    }
    if (!plan->parsed()) return inspect_operators(*operators_json);
    const Status status = inspect_plan(*options);
    return status.ok() ? 0 : report_error("inspect plan", status);
  };
}

}  // namespace tutti::cli
