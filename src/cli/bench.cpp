#include "cli/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/dispatch.h"
#include "cli/load_plan.h"

namespace tutti::cli {
namespace {

struct BenchCommand {
  ModelOptions model;
  BackendOptions backend;
  std::vector<std::string> sizes;
  int threads = 0;
  int warmup = 1;
  int runs = 5;
  bool vary = false;
  bool as_json = false;
};

// Uniform in [-1, 1); integers and booleans are 0 or 1, which any embedding table has.
Status fill_random(Tensor* tensor, std::uint32_t seed) {
  std::minstd_rand random(seed + 1);
  return dispatch_dtype(tensor->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = tensor->template mutable_data_as<T>();
    for (std::int64_t i = 0; i < tensor->element_count(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        data[i] = static_cast<T>(random() & 1U);
      } else {
        const auto unit = static_cast<float>(random()) / static_cast<float>(random.max());
        data[i] = static_cast<T>(2 * unit - 1);
      }
    }
    return Status();
  });
}

Result<std::vector<Tensor>> random_inputs(const Plan& plan, const SymbolMap& sizes) {
  std::vector<Tensor> inputs;
  for (const PlanTensor& input : plan.inputs) {
    auto dims = evaluate(input.shape, sizes);
    if (!dims.ok()) {
      return dims.status().with_context(
          str_cat("input '", input.name, "' of shape ", input.shape, " (give --size NAME=SIZE)"));
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(input.dtype, *std::move(dims)));
    TUTTI_RETURN_IF_ERROR(fill_random(&tensor, static_cast<std::uint32_t>(inputs.size())));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

nlohmann::json rank_report(const RankProfile& profile, int runs) {
  RankProfile rows = profile;
  std::sort(rows.begin(), rows.end(),
            [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  nlohmann::json report = nlohmann::json::array();
  for (const OpTime& row : rows) {
    if (row.calls == 0) continue;
    report.push_back(
        {{"op", row.op}, {"count", row.calls / runs}, {"seconds", row.seconds / runs}});
  }
  return report;
}

Status run_bench(const BenchCommand& command) {
  if (command.runs < 1) return invalid_argument("--runs ", command.runs, ": expected at least 1");
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap sizes, parse_sizes("--size", command.sizes));
  TUTTI_ASSIGN_OR_RETURN(const LoadedPlan loaded,
                         load_plan(command.model, command.backend, command.threads));
  TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, random_inputs(*loaded.plan, sizes));
  const auto vary = [&](int run) -> Status {
    if (!command.vary) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(fill_random(
          &inputs[i], static_cast<std::uint32_t>(run * 100) + static_cast<std::uint32_t>(i)));
    }
    return {};
  };
  for (int run = 0; run < command.warmup; ++run) {
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, {}));
  }
  std::vector<double> seconds;
  for (int run = 0; run < command.runs; ++run) {
    TUTTI_RETURN_IF_ERROR(vary(run));
    const auto start = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, {}));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
  }
  // Profiled apart, so that its clock reads do not count.
  RunOptions profiled;
  profiled.is_profiled = true;
  (void)loaded.group->take_profiles();
  for (int run = 0; run < command.runs; ++run) {
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, profiled));
  }
  nlohmann::json report = {{"backend", loaded.backend->describe()},
                           {"ranks", loaded.plan->mesh.num_ranks()},
                           {"mesh", loaded.plan->mesh.to_string()},
                           {"threads_per_rank", loaded.group->threads_per_rank()},
                           {"runs", command.runs},
                           {"median_s", median(seconds)},
                           {"min_s", *std::min_element(seconds.begin(), seconds.end())},
                           {"max_s", *std::max_element(seconds.begin(), seconds.end())}};
  const std::vector<RankProfile> profiles = loaded.group->take_profiles();
  for (const RankProfile& profile : profiles) {
    report["by_rank"].push_back(rank_report(profile, command.runs));
  }
  report["kernels"] = report["by_rank"][0];
  for (const RankMemory& memory : loaded.group->memory()) {
    report["memory"].push_back({{"rank", memory.rank},
                                {"arena_bytes", memory.arena_bytes},
                                {"prologue_bytes", memory.prologue_bytes},
                                {"weight_bytes", memory.weight_bytes}});
  }
  if (command.as_json) {
    std::printf("%s\n", report.dump(1).c_str());
    return {};
  }
  std::printf("%s\n", loaded.backend->describe().c_str());
  std::printf("%d ranks, %d threads each: median %.2f ms (%.2f to %.2f), %d runs\n",
              report["ranks"].get<int>(), report["threads_per_rank"].get<int>(),
              report["median_s"].get<double>() * 1e3, report["min_s"].get<double>() * 1e3,
              report["max_s"].get<double>() * 1e3, command.runs);
  std::printf("rank 0 by operator:\n");
  for (const auto& row : report["kernels"]) {
    std::printf("  %-22s %9.3f ms %6d calls\n", row["op"].get<std::string>().c_str(),
                row["seconds"].get<double>() * 1e3, row["count"].get<int>());
  }
  return {};
}

}  // namespace

std::function<int()> add_bench(CLI::App& command) {
  auto options = std::make_shared<BenchCommand>();
  add_model_options(command, &options->model);
  add_backend_options(command, &options->backend);
  command.add_option("--size", options->sizes, "NAME=SIZE for every symbolic dimension");
  command.add_option("--threads", options->threads, "Host threads of all ranks together");
  command.add_option("--warmup", options->warmup, "Forwards before the timed ones")
      ->capture_default_str();
  command.add_option("--runs", options->runs, "Timed forwards")->capture_default_str();
  command.add_flag("--vary", options->vary,
                   "New inputs for every run, so that the prologue runs each time");
  command.add_flag("--json", options->as_json, "Report as JSON");
  return [options] {
    const Status status = run_bench(*options);
    return status.ok() ? 0 : report_error("bench", status);
  };
}

}  // namespace tutti::cli
