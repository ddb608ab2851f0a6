// Which backend runs plans: --backend and --backend-directory.
#pragma once

#include <memory>
#include <string>

#include "runtime/backend.h"

namespace CLI {
class App;
}

namespace tutti::cli {

struct BackendOptions {
  std::string name = "auto";  // auto, cpu, cuda
  std::string directory;      // of libtutti_NAME.so; empty: beside the program and in ../lib
};

void add_backend_options(CLI::App& command, BackendOptions* options);

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  // Why there is no GPU backend although one would have been taken; empty otherwise.
  std::string no_gpu;
};

// `auto` takes cuda where it works and cpu elsewhere. Errors: a backend asked for by name that does
// not work here, which says why.
Result<ChosenBackend> choose_backend(const BackendOptions& options);

}  // namespace tutti::cli
