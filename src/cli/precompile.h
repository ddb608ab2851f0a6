// A plan's kernels for cards that are not there: `tutti compile --cuda-arch`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/subcommand.h"
#include "plan/plan.h"

namespace tutti::cli {

struct PrecompileOptions {
  std::vector<std::string> architectures;  // "sm_90"
  std::string directory;                   // of libtutti_cuda.so; empty: as for backends
};

void add_precompile_options(CLI::App& command, PrecompileOptions* options);

// Makes the kernels that the plan needs at its best, smallest and largest sizes, and adds them to
// its artifacts. Tells `progress` of each architecture. Errors name the option: a size without a
// range, no plug-in or no NVRTC, an architecture that there is not, nodes without a kernel.
Status precompile(const PrecompileOptions& options, const std::shared_ptr<Plan>& plan,
                  const std::function<void(std::string_view step, double seconds)>& progress);

}  // namespace tutti::cli
