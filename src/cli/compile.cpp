#include "cli/compile.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/artifact_report.h"
#include "cli/model_config.h"
#include "cli/model_options.h"
#include "cli/precompile.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

struct CompileCommand {
  ModelOptions model;
  PrecompileOptions precompile;
  std::string output;
  int version = 1;
  bool explain = false;
  bool quiet = false;
};

// Version folders are digits without a leading zero; anything else would not be served.
Status check_output(const CompileCommand& command) {
  if (command.version < 1) {
    return invalid_argument("--version ", command.version, ": expected a number of at least 1");
  }
  const std::string name = fs::path(command.output).lexically_normal().filename().string();
  if (name.empty() || name == "." || name == "..") {
    return invalid_argument("--output '", command.output,
                            "': expected REPOSITORY/NAME, the folder of one model");
  }
  return {};
}

// On a terminal, each pass overwrites the line of the one before; in a log, each has its own.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void step(std::string_view name, double seconds) {
    total_ += seconds;
    if (quiet_) return;
    std::fprintf(stderr, terminal_ ? "\r\033[K%-24.*s %7.3f s" : "%-24.*s %7.3f s\n",
                 static_cast<int>(name.size()), name.data(), seconds);
  }

  void finish(const std::string& what) {
    if (quiet_) return;
    std::fprintf(stderr, "%s%s (%.2f s)\n", terminal_ ? "\r\033[K" : "", what.c_str(), total_);
  }

 private:
  bool quiet_;
  bool terminal_;
  double total_ = 0;
};

// An axis along which no value is cut multiplies the work, which nobody asks for on purpose.
void warn_of_idle_axes(const Plan& plan) {
  for (int axis = 0; axis < static_cast<int>(plan.mesh.axes().size()); ++axis) {
    const MeshAxis& along = plan.mesh.axes()[static_cast<std::size_t>(axis)];
    const bool is_used = std::any_of(
        plan.layouts.begin(), plan.layouts.end(),
        [axis](const auto& entry) { return entry.second.layout.on_axis(axis) != nullptr; });
    if (is_used || along.size == 1) continue;
    std::fprintf(stderr,
                 "tutti compile: warning: mesh axis '%s' splits nothing, so its %lld ranks do the "
                 "same work; an axis cp, tp, cfg or sp has a strategy by its name, any other by "
                 "--strategy %s=NAME or --shard\n",
                 along.name.c_str(), static_cast<long long>(along.size), along.name.c_str());
  }
}

Status run_compile(const CompileCommand& command) {
  TUTTI_RETURN_IF_ERROR(check_output(command));
  ProgressLine progress(command.quiet);
  const Operators operators;
  TUTTI_ASSIGN_OR_RETURN(
      PlannedModel planned,
      plan_model(command.model, operators,
                 [&](std::string_view step, double seconds) { progress.step(step, seconds); }));
  const auto plan = std::make_shared<Plan>(std::move(planned.plan));
  TUTTI_RETURN_IF_ERROR(
      precompile(command.precompile, plan,
                 [&](std::string_view step, double seconds) { progress.step(step, seconds); }));
  const fs::path folder = fs::path(command.output).lexically_normal();
  const fs::path version = folder / std::to_string(command.version);
  std::error_code error;
  fs::create_directories(version, error);
  if (error) {
    return invalid_argument("--output '", version.string(), "': ", error.message());
  }
  TUTTI_RETURN_IF_ERROR(write_plan(*plan, (version / "model.plan").string()));
  TUTTI_RETURN_IF_ERROR(write_model_config(*plan, folder.string()));
  warn_of_idle_axes(*plan);
  if (command.explain) std::fputs(planned.explain.c_str(), stdout);
  std::string summary =
      str_cat("wrote ", (version / "model.plan").string(), ": ", plan->mesh.num_ranks(), " ranks, ",
              plan->exchanges.size(), " exchanges");
  for (const ArtifactGroup& group : group_artifacts(plan->artifacts)) {
    summary += "; " + group.text();
  }
  progress.finish(summary);
  return {};
}

}  // namespace

std::function<int()> add_compile(CLI::App& command) {
  auto options = std::make_shared<CompileCommand>();
  add_model_options(command, &options->model);
  add_precompile_options(command, &options->precompile);
  command.add_option("-o,--output", options->output, "REPOSITORY/NAME: the model's folder")
      ->required();
  command.add_option("--version", options->version, "Version folder to write")
      ->capture_default_str();
  command.add_flag("--explain", options->explain,
                   "Print the layout of every value and the bytes of every exchange");
  command.add_flag("--quiet", options->quiet, "No progress on stderr");
  return [options] {
    const Status status = run_compile(*options);
    return status.ok() ? 0 : report_error("compile", status);
  };
}

}  // namespace tutti::cli
