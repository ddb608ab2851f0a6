#include "cli/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/bench_overlap.h"
#include "cli/bench_report.h"
#include "cli/load_plan.h"
#include "cli/random_inputs.h"
#include "runtime/shape_binding.h"

namespace tutti::cli {
namespace {

// A profile is about shares of the time, which hardly differ from run to run.
constexpr int kMostProfiledRuns = 2;

struct BenchCommand {
  ModelOptions model;
  BackendOptions backend;
  std::vector<std::string> sizes;
  std::vector<std::string> inputs;  // NAME=FILE.npy
  int threads = 0;
  int warmup = 1;
  int runs = 5;
  double ceiling = 0;
  std::string trace;
  bool vary = false;
  int in_flight = 1;
  bool as_json = false;
};

Result<SymbolMap> bound_sizes(const Plan& plan, const std::vector<Tensor>& inputs) {
  std::vector<TensorDesc> descs;
  for (const Tensor& input : inputs) descs.push_back(input.desc());
  TUTTI_ASSIGN_OR_RETURN(const auto binding, bind_shapes(plan, std::move(descs)));
  return binding->symbols;
}

Status write_trace(const std::string& path, const nlohmann::json& trace) {
  std::ofstream file(path);
  file << trace.dump() << '\n';
  file.close();
  if (file) return {};
  return invalid_argument("--trace '", path, "': cannot be written");
}

// Apart from the timed runs, so that its clock reads do not count.
Status profile(const BenchCommand& command, const LoadedPlan& loaded,
               const std::vector<Tensor>& inputs, BenchResult* result) {
  RunOptions options;
  options.is_profiled = true;
  (void)loaded.group->take_profiles();
  const std::vector<std::int64_t> before = loaded.group->sent_bytes();
  const int runs = std::min(command.runs, kMostProfiledRuns);
  for (int run = 0; run < runs; ++run) {
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, options));
  }
  result->profiled_runs = runs;
  result->sent_bytes = loaded.group->sent_bytes();
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    result->sent_bytes[rank] = (result->sent_bytes[rank] - before[rank]) / runs;
  }
  result->profiles = loaded.group->take_profiles();
  result->timelines = loaded.group->take_timelines();
  return {};
}

Status run_bench(const BenchCommand& command) {
  if (command.runs < 1) return invalid_argument("--runs ", command.runs, ": expected at least 1");
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap sizes, parse_sizes("--size", command.sizes));
  TUTTI_ASSIGN_OR_RETURN(const LoadedPlan loaded,
                         load_plan(command.model, command.backend, command.threads));
  TUTTI_ASSIGN_OR_RETURN(const GivenInputs given, read_given_inputs(command.inputs, *loaded.plan));
  TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, random_inputs(*loaded.plan, sizes, given));
  const auto vary = [&](int run) -> Status {
    if (!command.vary) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (given.count(loaded.plan->inputs[i].name) > 0) continue;
      TUTTI_RETURN_IF_ERROR(fill_random(
          &inputs[i], static_cast<std::uint32_t>(run * 100) + static_cast<std::uint32_t>(i)));
    }
    return {};
  };
  for (int run = 0; run < command.warmup; ++run) {
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, {}));
  }
  BenchResult result;
  for (int run = 0; run < command.runs; ++run) {
    TUTTI_RETURN_IF_ERROR(vary(run));
    const auto start = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(loaded.group->run(inputs, {}));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    result.seconds.push_back(took.count());
  }
  OverlapResult overlap;
  if (command.in_flight > 1) {
    TUTTI_ASSIGN_OR_RETURN(overlap,
                           run_overlapping(*loaded.group, inputs, command.in_flight, command.runs));
  }
  TUTTI_RETURN_IF_ERROR(profile(command, loaded, inputs, &result));
  result.backend = loaded.backend->describe();
  result.threads_per_rank = loaded.group->threads_per_rank();
  result.memory = loaded.group->memory();
  result.flops_ceiling = command.ceiling * 1e12;
  const OpRegistry& ops = loaded.operators->ops;
  if (!command.trace.empty()) {
    nlohmann::json trace = bench_trace(result.timelines, ops);
    if (command.in_flight > 1) add_overlap(overlap, &trace);
    TUTTI_RETURN_IF_ERROR(write_trace(command.trace, trace));
  }
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap bound, bound_sizes(*loaded.plan, inputs));
  nlohmann::json report = bench_json(result, *loaded.plan, ops, bound);
  std::string table = bench_table(report);
  if (command.in_flight > 1) {
    report["overlap"] = overlap_json(overlap);
    table += overlap_table(report["overlap"]);
  }
  std::printf("%s\n", command.as_json ? report.dump(1).c_str() : table.c_str());
  return {};
}

}  // namespace

std::function<int()> add_bench(CLI::App& command) {
  auto options = std::make_shared<BenchCommand>();
  add_model_options(command, &options->model);
  add_backend_options(command, &options->backend);
  command.add_option("--size", options->sizes,
                     "NAME=SIZE for a symbolic dimension; those of --profile have their best size");
  command.add_option("--input", options->inputs,
                     "NAME=FILE.npy; inputs that are not given are random numbers");
  command.add_option("--threads", options->threads, "Host threads of all ranks together");
  command.add_option("--warmup", options->warmup, "Forwards before the timed ones")
      ->capture_default_str();
  command.add_option("--runs", options->runs, "Timed forwards")->capture_default_str();
  command.add_flag("--vary", options->vary,
                   "New inputs for every run, so that the prologue runs each time");
  command
      .add_option("--in-flight", options->in_flight,
                  "More than 1: also that many requests at a time, --runs each, and what lies "
                  "between their forwards")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--ceiling", options->ceiling,
                     "TFLOP/s that a rank could reach, to compare with");
  command.add_option("--trace", options->trace,
                     "File for a trace of one profiled run, for Perfetto or chrome://tracing");
  command.add_flag("--json", options->as_json, "Report as JSON");
  return [options] {
    const Status status = run_bench(*options);
    return status.ok() ? 0 : report_error("bench", status);
  };
}

}  // namespace tutti::cli
