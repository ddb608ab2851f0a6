#include "cli/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "compiler/cost.h"

namespace tutti::cli {
namespace {

constexpr std::string_view kExchanges = "exchanges";
constexpr std::string_view kRequest = "inputs and outputs";

struct ClassOf {
  std::string_view op;
  std::string_view kernel_class;
};

// Everything else that moves no data between ranks is pointwise or a norm.
constexpr ClassOf kClasses[] = {
    {"MatMul", "products"},
    {"Linear", "products"},
    {"Attention", "attention"},
    {"RingAttention", "attention"},
    {"JoinedRingAttention", "attention"},
    {"PipelinedAttention", "attention"},
    {"Conv", "convolutions"},
    {"ConvTranspose", "convolutions"},
    {"Pool", "convolutions"},
    {"Resize", "convolutions"},
    {"Concat", "copies"},
    {"Expand", "copies"},
    {"Gather", "copies"},
    {"GatherElements", "copies"},
    {"GatherND", "copies"},
    {"Pad", "copies"},
    {"ScatterElements", "copies"},
    {"ScatterND", "copies"},
    {"ShardSlice", "copies"},
    {"Slice", "copies"},
    {"Split", "copies"},
    {"Tile", "copies"},
    {"Transpose", "copies"},
    {"WindowSlice", "copies"},
    {"(inputs)", kRequest},
    {"(outputs)", kRequest},
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

nlohmann::json operator_rows(const RankProfile& profile, int runs) {
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

struct ClassTime {
  double seconds = 0;
  double calls = 0;
  double flops = 0;
};
using ClassTimes = std::map<std::string, ClassTime>;

ClassTimes class_times(const BenchResult& result, std::size_t rank, const Plan& plan,
                       const OpRegistry& ops, const SymbolMap& sizes) {
  ClassTimes times;
  for (const OpTime& row : result.profiles[rank]) {
    ClassTime& time = times[kernel_class(row.op, ops)];
    time.seconds += row.seconds / result.profiled_runs;
    time.calls += static_cast<double>(row.calls) / result.profiled_runs;
  }
  for (const auto& [op, flops] :
       flops_by_type(*plan.main, plan.mesh, static_cast<int>(rank), SizeEstimate(sizes))) {
    const auto it = times.find(kernel_class(op, ops));
    if (it != times.end()) it->second.flops += flops;
  }
  return times;
}

// From the first start to the last end on any rank, less what the rank was busy with.
double idle_seconds(const std::vector<RankTimeline>& timelines, std::size_t rank) {
  double first = 0;
  double last = 0;
  bool is_empty = true;
  for (const RankTimeline& timeline : timelines) {
    for (const StepTime& step : timeline) {
      first = is_empty ? step.start : std::min(first, step.start);
      last = is_empty ? step.start + step.seconds : std::max(last, step.start + step.seconds);
      is_empty = false;
    }
  }
  double busy = 0;
  for (const StepTime& step : timelines[rank]) busy += step.seconds;
  return std::max(0.0, last - first - busy);
}

nlohmann::json rank_classes(const ClassTimes& times) {
  double total = 0;
  for (const auto& [name, time] : times) total += time.seconds;
  std::vector<std::pair<std::string, ClassTime>> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, time] : sorted) {
    if (time.calls == 0) continue;
    rows.push_back({{"class", name},
                    {"seconds", time.seconds},
                    {"share", total > 0 ? time.seconds / total : 0},
                    {"calls", time.calls},
                    {"flops", time.flops},
                    {"flops_per_second", time.seconds > 0 ? time.flops / time.seconds : 0}});
  }
  return rows;
}

std::string line(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string kernel_class(std::string_view op, const OpRegistry& ops) {
  const auto it = std::find_if(std::begin(kClasses), std::end(kClasses),
                               [&](const ClassOf& row) { return row.op == op; });
  if (it != std::end(kClasses)) return std::string(it->kernel_class);
  const OpDef* def = ops.find(op);
  return def != nullptr && def->is_exchange ? std::string(kExchanges) : "pointwise and norms";
}

nlohmann::json bench_json(const BenchResult& result, const Plan& plan, const OpRegistry& ops,
                          const SymbolMap& sizes) {
  nlohmann::json report = {
      {"backend", result.backend},
      {"ranks", plan.mesh.num_ranks()},
      {"mesh", plan.mesh.to_string()},
      {"threads_per_rank", result.threads_per_rank},
      {"runs", result.seconds.size()},
      {"median_s", median(result.seconds)},
      {"min_s", *std::min_element(result.seconds.begin(), result.seconds.end())},
      {"max_s", *std::max_element(result.seconds.begin(), result.seconds.end())}};
  for (std::size_t rank = 0; rank < result.profiles.size(); ++rank) {
    const ClassTimes times = class_times(result, rank, plan, ops, sizes);
    double flops = 0;
    for (const auto& [name, time] : times) flops += time.flops;
    report["flops"].push_back(flops);
    report["by_rank"].push_back(operator_rows(result.profiles[rank], result.profiled_runs));
    report["classes"].push_back(rank_classes(times));
    report["idle_s"].push_back(idle_seconds(result.timelines, rank));
    const auto exchange = times.find(std::string(kExchanges));
    const double seconds = exchange == times.end() ? 0 : exchange->second.seconds;
    const auto bytes = static_cast<double>(result.sent_bytes[rank]);
    report["exchange"].push_back({{"bytes", result.sent_bytes[rank]},
                                  {"seconds", seconds},
                                  {"bytes_per_second", seconds > 0 ? bytes / seconds : 0}});
  }
  report["kernels"] = report["by_rank"][0];
  if (result.flops_ceiling > 0) report["flops_ceiling"] = result.flops_ceiling;
  for (const RankMemory& memory : result.memory) {
    report["memory"].push_back({{"rank", memory.rank},
                                {"arena_bytes", memory.arena_bytes},
                                {"prologue_bytes", memory.prologue_bytes},
                                {"weight_bytes", memory.weight_bytes}});
  }
  return report;
}

std::string bench_table(const nlohmann::json& report) {
  const auto number = [](const nlohmann::json& value) { return value.get<double>(); };
  const double median_s = number(report["median_s"]);
  std::string text = report["backend"].get<std::string>() + "\n";
  text +=
      line("%d ranks, %d threads each: median %.3f ms (%.3f to %.3f), %d runs\n",
           report["ranks"].get<int>(), report["threads_per_rank"].get<int>(), median_s * 1e3,
           number(report["min_s"]) * 1e3, number(report["max_s"]) * 1e3, report["runs"].get<int>());
  text += "a profiled run, step by step:\n";
  for (std::size_t rank = 0; rank < report["classes"].size(); ++rank) {
    const double flops = number(report["flops"][rank]);
    text += line("  rank %zu: %.3f GFLOP, %.2f TFLOP/s over the median", rank, flops * 1e-9,
                 flops / median_s * 1e-12);
    if (report.contains("flops_ceiling")) {
      const double ceiling = number(report["flops_ceiling"]);
      text += line(", %.1f%% of %.0f", flops / median_s / ceiling * 100, ceiling * 1e-12);
    }
    text += "\n";
    for (const auto& row : report["classes"][rank]) {
      text +=
          line("    %-22s %10.3f ms %5.1f%% %6.0f calls", row["class"].get<std::string>().c_str(),
               number(row["seconds"]) * 1e3, number(row["share"]) * 100, number(row["calls"]));
      if (number(row["flops"]) > 0) {
        text += line(" %9.2f TFLOP/s", number(row["flops_per_second"]) * 1e-12);
      }
      text += "\n";
    }
    text += line("    %-22s %10.3f ms\n", "idle", number(report["idle_s"][rank]) * 1e3);
    const auto& exchange = report["exchange"][rank];
    if (number(exchange["bytes"]) > 0) {
      text += line("    sent to other ranks: %.3f MB, %.2f GB/s in exchanges, waiting included\n",
                   number(exchange["bytes"]) * 1e-6, number(exchange["bytes_per_second"]) * 1e-9);
    }
  }
  text += "rank 0 by operator:\n";
  for (const auto& row : report["kernels"]) {
    text += line("  %-22s %9.3f ms %6d calls\n", row["op"].get<std::string>().c_str(),
                 number(row["seconds"]) * 1e3, row["count"].get<int>());
  }
  return text;
}

nlohmann::json bench_trace(const std::vector<RankTimeline>& timelines, const OpRegistry& ops) {
  double first = 0;
  bool is_empty = true;
  for (const RankTimeline& timeline : timelines) {
    if (timeline.empty()) continue;
    first = is_empty ? timeline.front().start : std::min(first, timeline.front().start);
    is_empty = false;
  }
  nlohmann::json events = nlohmann::json::array();
  const auto name_thread = [&](const char* what, std::size_t rank, const std::string& name) {
    events.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", 0}, {"tid", rank}, {"args", {{"name", name}}}});
  };
  name_thread("process_name", 0, "tutti");
  for (std::size_t rank = 0; rank < timelines.size(); ++rank) {
    name_thread("thread_name", rank, str_cat("rank ", rank));
    for (const StepTime& step : timelines[rank]) {
      events.push_back({{"ph", "X"},
                        {"name", step.op},
                        {"cat", kernel_class(step.op, ops)},
                        {"pid", 0},
                        {"tid", rank},
                        {"ts", (step.start - first) * 1e6},
                        {"dur", step.seconds * 1e6},
                        {"args", {{"node", step.name}}}});
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace tutti::cli
