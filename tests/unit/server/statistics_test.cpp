#include "server/statistics.h"

#include <gtest/gtest.h>

namespace tutti::server {
namespace {

using std::chrono::nanoseconds;

TimePoint at(int ns) { return TimePoint() + nanoseconds(ns); }

RequestTimes times(int start) {
  // 1 at the door, 2 in the queue, 4 input, 8 compute, 16 output: each phase has a sum of its own.
  return {at(start), at(start + 1), at(start + 3), at(start + 7), at(start + 15), at(start + 31)};
}

TEST(ModelStatistics, SuccessAddsEachPhaseToItsOwnSum) {
  ModelStatistics statistics;
  statistics.record_success(1, times(0), 111);
  statistics.record_execution(1, times(0));
  statistics.record_success(4, times(100), 222);
  statistics.record_execution(4, times(100));
  const StatisticsSnapshot now = statistics.snapshot();
  EXPECT_EQ(now.success, (DurationStatistic{2, 62}));
  EXPECT_EQ(now.fail, (DurationStatistic{0, 0}));
  EXPECT_EQ(now.queue, (DurationStatistic{2, 4}));
  EXPECT_EQ(now.phases.compute_input, (DurationStatistic{2, 8}));
  EXPECT_EQ(now.phases.compute_infer, (DurationStatistic{2, 16}));
  EXPECT_EQ(now.phases.compute_output, (DurationStatistic{2, 32}));
  EXPECT_EQ(now.inference_count, 5U);
  EXPECT_EQ(now.execution_count, 2U);
  EXPECT_EQ(now.last_inference_ms, 222U);
  ASSERT_EQ(now.by_batch_size.size(), 2U);
  EXPECT_EQ(now.by_batch_size.at(4).compute_infer, (DurationStatistic{1, 8}));
}

TEST(ModelStatistics, RequestsThatRanTogetherAreOneExecution) {
  ModelStatistics statistics;
  for (const int rows : {3, 4, 1}) statistics.record_success(rows, times(0), 1);
  statistics.record_execution(8, times(0));
  const StatisticsSnapshot now = statistics.snapshot();
  EXPECT_EQ(now.success.count, 3U);
  EXPECT_EQ(now.phases.compute_infer, (DurationStatistic{3, 24}));
  EXPECT_EQ(now.inference_count, 8U);
  EXPECT_EQ(now.execution_count, 1U);
  ASSERT_EQ(now.by_batch_size.size(), 1U);
  EXPECT_EQ(now.by_batch_size.at(8).compute_infer, (DurationStatistic{1, 8}));
}

TEST(ModelStatistics, FailureCountsNowhereElse) {
  ModelStatistics statistics;
  statistics.record_failure(nanoseconds(7));
  statistics.record_failure(nanoseconds(5));
  const StatisticsSnapshot now = statistics.snapshot();
  EXPECT_EQ(now.fail, (DurationStatistic{2, 12}));
  EXPECT_EQ(now.success.count, 0U);
  EXPECT_EQ(now.queue.count, 0U);
  EXPECT_EQ(now.phases, PhaseStatistics());
  EXPECT_EQ(now.inference_count, 0U);
  EXPECT_EQ(now.execution_count, 0U);
  EXPECT_EQ(now.last_inference_ms, 0U);
  EXPECT_TRUE(now.by_batch_size.empty());
}

}  // namespace
}  // namespace tutti::server
