#include "cli/bench_overlap.h"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace tutti::cli {
namespace {

double seconds_of(TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Status call(RankGroup& group, const std::vector<Tensor>& inputs, int runs, int caller,
            std::vector<OverlapSpan>* spans) {
  for (int run = 0; run < runs; ++run) {
    RunTimes times;
    RunOptions options;
    options.times = &times;
    const TimePoint called = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(group.run(inputs, options));
    const TimePoint answered = std::chrono::steady_clock::now();
    spans->push_back({caller, seconds_of(called), seconds_of(times.started),
                      seconds_of(times.finished), seconds_of(answered)});
  }
  return {};
}

}  // namespace

Result<OverlapResult> run_overlapping(RankGroup& group, const std::vector<Tensor>& inputs,
                                      int in_flight, int runs) {
  const auto count = static_cast<std::size_t>(in_flight);
  std::vector<std::vector<OverlapSpan>> spans(count);
  std::vector<Status> statuses(count);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < count; ++i) {
    callers.emplace_back(
        [&, i] { statuses[i] = call(group, inputs, runs, static_cast<int>(i), &spans[i]); });
  }
  for (std::thread& caller : callers) caller.join();
  OverlapResult result;
  result.in_flight = in_flight;
  for (std::size_t i = 0; i < count; ++i) {
    TUTTI_RETURN_IF_ERROR(statuses[i]);
    result.spans.insert(result.spans.end(), spans[i].begin(), spans[i].end());
  }
  std::sort(result.spans.begin(), result.spans.end(),
            [](const OverlapSpan& a, const OverlapSpan& b) { return a.started < b.started; });
  return result;
}

nlohmann::json overlap_json(const OverlapResult& result) {
  std::vector<double> periods;
  std::vector<double> forwards;
  std::vector<double> between;
  for (std::size_t i = 0; i < result.spans.size(); ++i) {
    const OverlapSpan& span = result.spans[i];
    forwards.push_back(span.finished - span.started);
    if (i == 0) continue;
    periods.push_back(span.started - result.spans[i - 1].started);
    between.push_back(span.started - result.spans[i - 1].finished);
  }
  return {{"in_flight", result.in_flight},
          {"requests", result.spans.size()},
          {"period_s", median(std::move(periods))},
          {"forward_s", median(std::move(forwards))},
          {"between_s", median(std::move(between))}};
}

std::string overlap_table(const nlohmann::json& report) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%d in flight: %.3f ms from start to start, forward %.3f ms, %.3f ms between two\n",
                report["in_flight"].get<int>(), report["period_s"].get<double>() * 1e3,
                report["forward_s"].get<double>() * 1e3, report["between_s"].get<double>() * 1e3);
  return text;
}

void add_overlap(const OverlapResult& result, nlohmann::json* trace) {
  nlohmann::json& events = (*trace)["traceEvents"];
  constexpr int kProcess = 1;
  double first = result.spans.empty() ? 0 : result.spans.front().called;
  for (const OverlapSpan& span : result.spans) first = std::min(first, span.called);
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", kProcess},
                    {"tid", 0},
                    {"args", {{"name", str_cat(result.in_flight, " requests in flight")}}}});
  const auto add = [&](const char* name, int caller, double from, double to) {
    events.push_back({{"ph", "X"},
                      {"name", name},
                      {"cat", "request"},
                      {"pid", kProcess},
                      {"tid", caller},
                      {"ts", (from - first) * 1e6},
                      {"dur", (to - from) * 1e6}});
  };
  for (const OverlapSpan& span : result.spans) {
    add("up, or waiting", span.caller, span.called, span.started);
    add("forward", span.caller, span.started, span.finished);
    add("down", span.caller, span.finished, span.answered);
  }
}

}  // namespace tutti::cli
