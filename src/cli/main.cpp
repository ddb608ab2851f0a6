#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/bench.h"
#include "cli/compile.h"
#include "cli/inspect.h"
#include "cli/run.h"
#include "cli/serve.h"
#include "cli/status.h"
#include "cli/subcommand.h"
#include "cli/tune.h"
#include "cli/usage_errors.h"
#include "tutti/version.h"

namespace {

// One line a sub-command; the order is that of the help text.
constexpr std::array kSubcommands = {
    tutti::cli::Subcommand{"compile", "Compile an ONNX model into a plan over a mesh of ranks",
                           tutti::cli::add_compile},
    tutti::cli::Subcommand{"serve", "Serve model repositories over gRPC and HTTP",
                           tutti::cli::add_serve},
    tutti::cli::Subcommand{"status", "Watch a running server: models, ranks, queues, latency",
                           tutti::cli::add_status},
    tutti::cli::Subcommand{"inspect", "Show what a plan or this build holds",
                           tutti::cli::add_inspect},
    tutti::cli::Subcommand{"run", "Run an ONNX model or a plan once", tutti::cli::add_run},
    tutti::cli::Subcommand{"tune", "Keep what a GPU compiles and measures for a plan in the plan",
                           tutti::cli::add_tune},
    tutti::cli::Subcommand{"bench", "Time a plan's forward", tutti::cli::add_bench},
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Tutti compiles and serves models that run distributed over ranks");
  app.set_version_flag("--version", "tutti " TUTTI_VERSION);
  app.require_subcommand(1);

  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const auto& [name, summary, add] : kSubcommands) {
    CLI::App* command = app.add_subcommand(std::string(name), std::string(summary));
    actions.emplace_back(command, add(*command));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    return tutti::cli::report_unknown(app, error, argc, argv);
  } catch (const CLI::RequiredError& error) {
    return tutti::cli::report_required(app, error, argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 counts --help and --version as errors with code 0.
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& [command, run] : actions) {
    if (command->parsed()) return run();
  }
  return 2;
}
