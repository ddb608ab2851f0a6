// `tutti compile`: an ONNX model to a version folder of a model repository.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_compile(CLI::App& command);

}  // namespace tutti::cli
