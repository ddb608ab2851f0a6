// `tutti serve`: serves model repositories until SIGTERM or SIGINT.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_serve(CLI::App& command);

}  // namespace tutti::cli
