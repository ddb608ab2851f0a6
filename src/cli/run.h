// `tutti run`: one forward of an ONNX model or a plan on CPU ranks, tensors from and to .npy files.
#pragma once

#include <functional>

#include "cli/subcommand.h"

namespace tutti::cli {

std::function<int()> add_run(CLI::App& command);

}  // namespace tutti::cli
