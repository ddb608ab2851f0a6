// `tutti bench --in-flight N`: requests that overlap, and what lies between their forwards.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/rank_group.h"

namespace tutti::cli {

// One request; seconds of the steady clock.
struct OverlapSpan {
  int caller = 0;
  double called = 0;
  double started = 0;  // the ranks have it
  double finished = 0;
  double answered = 0;
};

struct OverlapResult {
  int in_flight = 0;
  std::vector<OverlapSpan> spans;  // by `started`
};

// `in_flight` callers make `runs` requests each, one after the other. The first error of any.
Result<OverlapResult> run_overlapping(RankGroup& group, const std::vector<Tensor>& inputs,
                                      int in_flight, int runs);

// Keys: in_flight, requests, and medians in seconds: period_s (from start to start), forward_s,
// between_s (from the end of a forward to the start of the next one).
nlohmann::json overlap_json(const OverlapResult& result);
std::string overlap_table(const nlohmann::json& report);

// Adds a thread a caller to a trace of bench_trace(): on the way up or waiting, forward, on the way
// down.
void add_overlap(const OverlapResult& result, nlohmann::json* trace);

}  // namespace tutti::cli
