#include "cli/serve.h"

#include <CLI/CLI.hpp>

namespace tutti::cli {

std::function<int()> add_serve(CLI::App&) {
  return [] { return 0; };
}

}  // namespace tutti::cli
