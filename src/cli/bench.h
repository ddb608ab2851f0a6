// `tutti bench PLAN`: timed forwards on random or given inputs, with the time by operator.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_bench(CLI::App& command);

}  // namespace tutti::cli
