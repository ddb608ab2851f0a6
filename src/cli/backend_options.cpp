#include "cli/backend_options.h"

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "backends/abi/plugin_backend.h"
#include "backends/cpu/backend.h"

namespace tutti::cli {

void add_backend_options(CLI::App& command, BackendOptions* options) {
  command
      .add_option("--backend", options->name,
                  "What runs plans: cpu, cuda, or auto: cuda where there is a GPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--backend-directory", options->directory,
                     "Folder of the plug-ins (libtutti_cuda.so), if not beside the program or in "
                     "../lib from there");
}

Result<ChosenBackend> choose_backend(const BackendOptions& options) {
  ChosenBackend chosen;
  if (options.name != "cpu") {
    auto cuda = abi::find_plugin("cuda", options.directory);
    if (cuda.ok()) {
      chosen.backend = *std::move(cuda);
      return chosen;
    }
    if (options.name == "cuda") return cuda.status().with_context("--backend cuda");
    chosen.no_gpu = cuda.status().message();
  }
  chosen.backend = cpu::make_cpu_backend();
  return chosen;
}

}  // namespace tutti::cli
