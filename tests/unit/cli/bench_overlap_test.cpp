#include "cli/bench_overlap.h"

#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

// Forwards of 4 s with 1 s between them, and one of 6 s after 3 s.
OverlapResult spans() {
  return {2, {{0, 10, 10, 14, 15}, {1, 10, 15, 19, 20}, {0, 15, 20, 24, 25}, {1, 20, 27, 33, 34}}};
}

TEST(BenchOverlap, TellsWhatLiesBetweenForwards) {
  const nlohmann::json report = overlap_json(spans());
  EXPECT_EQ(report["in_flight"], 2);
  EXPECT_EQ(report["requests"], 4);
  EXPECT_EQ(report["period_s"], 5);
  EXPECT_EQ(report["forward_s"], 4);
  EXPECT_EQ(report["between_s"], 1);
  EXPECT_EQ(overlap_table(report),
            "2 in flight: 5000.000 ms from start to start, forward 4000.000 ms, 1000.000 ms "
            "between two\n");
}

TEST(BenchOverlap, TracesHaveAThreadACaller) {
  nlohmann::json trace = {{"traceEvents", nlohmann::json::array()}};
  add_overlap(spans(), &trace);
  const nlohmann::json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 1U + 3U * 4U);
  const nlohmann::json& forward = events[5];  // the second caller's first
  EXPECT_EQ(forward["name"], "forward");
  EXPECT_EQ(forward["tid"], 1);
  EXPECT_EQ(forward["ts"], 5e6);
  EXPECT_EQ(forward["dur"], 4e6);
}

TEST(BenchOverlap, OneRequestHasNoneAfterIt) {
  const nlohmann::json report = overlap_json({1, {{0, 1, 2, 3, 4}}});
  EXPECT_EQ(report["between_s"], 0);
  EXPECT_EQ(report["forward_s"], 1);
}

}  // namespace
}  // namespace tutti::cli
