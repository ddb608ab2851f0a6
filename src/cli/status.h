#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace tutti::cli {

// tutti status: what a running server does, live.
std::function<int()> add_status(CLI::App& command);

}  // namespace tutti::cli
