// `tutti tune`: what a card compiles and measures for a plan, kept in the plan.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_tune(CLI::App& command);

}  // namespace tutti::cli
