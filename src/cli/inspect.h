// `tutti inspect operators` and `tutti inspect plan FILE`.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_inspect(CLI::App& command);

}  // namespace tutti::cli
