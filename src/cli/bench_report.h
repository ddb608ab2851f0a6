// What `tutti bench` says of its runs: as a table, as JSON, and as a trace for Perfetto.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plan/plan.h"
#include "runtime/rank_group.h"

namespace tutti::cli {

// Kinds of work, for people: "products", "attention", "convolutions", "pointwise and norms",
// "copies", "exchanges", "inputs and outputs".
std::string kernel_class(std::string_view op, const OpRegistry& ops);

struct BenchResult {
  std::string backend;  // a line for people
  int threads_per_rank = 1;
  std::vector<double> seconds;  // of the timed runs
  int profiled_runs = 0;
  // By rank.
  std::vector<RankProfile> profiles;     // of all profiled runs together
  std::vector<RankTimeline> timelines;   // of the last one
  std::vector<std::int64_t> sent_bytes;  // in one run, to other ranks
  std::vector<RankMemory> memory;
  double flops_ceiling = 0;  // a second and rank; 0: not known
};

// Seconds everywhere but in names that say otherwise. Keys: backend, ranks, mesh, threads_per_rank,
// runs, median_s, min_s, max_s, flops (of one run, by rank), by_rank (operators), kernels (those of
// rank 0), classes (by rank: class, seconds, share, calls, flops, flops_per_second), idle_s and
// exchange (bytes, seconds, bytes_per_second) by rank, memory.
nlohmann::json bench_json(const BenchResult& result, const Plan& plan, const OpRegistry& ops,
                          const SymbolMap& sizes);

// The table that bench_json's report makes.
std::string bench_table(const nlohmann::json& report);

// Chrome's trace events (also read by Perfetto): a thread a rank, microseconds since the earliest.
nlohmann::json bench_trace(const std::vector<RankTimeline>& timelines, const OpRegistry& ops);

}  // namespace tutti::cli
