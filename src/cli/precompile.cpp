#include "cli/precompile.h"

#include <chrono>
#include <cstdio>
#include <set>

#include <CLI/CLI.hpp>

#include "backends/abi/plugin_backend.h"
#include "runtime/rank_group.h"

namespace tutti::cli {
namespace {

Result<std::vector<TensorDesc>> inputs_at(const Plan& plan, std::int64_t DimRange::*bound) {
  SymbolMap sizes;
  for (const auto& [symbol, range] : plan.dims) sizes.emplace(symbol, range.*bound);
  std::vector<TensorDesc> descs;
  for (const PlanTensor& input : plan.inputs) {
    auto dims = evaluate(input.shape, sizes);
    if (!dims.ok()) {
      return dims.status().with_context(str_cat("input '", input.name, "' of shape ", input.shape,
                                                " (give --profile NAME=MIN:OPT:MAX)"));
    }
    descs.push_back({input.dtype, *std::move(dims)});
  }
  return descs;
}

Status precompile_for(const std::string& architecture, const PrecompileOptions& options,
                      const std::shared_ptr<Plan>& plan) {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                         abi::find_plugin("cuda", options.directory, architecture));
  RankGroupOptions group_options;
  group_options.devices.assign(static_cast<std::size_t>(plan->mesh.num_ranks()), 0);
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<RankGroup> group,
                         RankGroup::create(plan, *backend, group_options));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<TensorDesc> best, inputs_at(*plan, &DimRange::opt));
  TUTTI_RETURN_IF_ERROR(group->prepare(best, {}));
  // Kernels hang on sizes little, but on whether words and counts divide them.
  for (const auto bound : {&DimRange::min, &DimRange::max}) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<TensorDesc> inputs, inputs_at(*plan, bound));
    const Status status = inputs == best ? Status() : group->prepare(inputs, {});
    if (status.ok()) continue;
    std::fprintf(stderr, "tutti compile: warning: no kernels for the %s sizes of --profile: %s\n",
                 bound == &DimRange::min ? "smallest" : "largest", status.message().c_str());
  }
  merge_artifacts(backend->artifacts(), &plan->artifacts);
  return {};
}

}  // namespace

void add_precompile_options(CLI::App& command, PrecompileOptions* options) {
  command
      .add_option("--cuda-arch", options->architectures,
                  "Compile the CUDA kernels, too, and put them into the plan: sm_90, or several "
                  "with commas between. Needs no GPU")
      ->delimiter(',');
  command.add_option("--backend-directory", options->directory,
                     "Folder of libtutti_cuda.so for --cuda-arch, if not beside the program or in "
                     "../lib from there");
}

Status precompile(const PrecompileOptions& options, const std::shared_ptr<Plan>& plan,
                  const std::function<void(std::string_view step, double seconds)>& progress) {
  const std::set<std::string> architectures(options.architectures.begin(),
                                            options.architectures.end());
  for (const std::string& architecture : architectures) {
    const auto start = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(precompile_for(architecture, options, plan)
                              .with_context(str_cat("--cuda-arch ", architecture)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    progress(str_cat("kernels ", architecture), took.count());
  }
  return {};
}

}  // namespace tutti::cli
