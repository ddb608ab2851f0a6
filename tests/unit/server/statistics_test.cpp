#include "server/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(DurationHistogram, QuantilesAreRightWithinABucket) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.quantile_us(0.5), 0);
  for (int us = 1; us <= 1000; ++us) histogram.add(std::chrono::microseconds(us));
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double right = share * 1000;
    EXPECT_GE(histogram.quantile_us(share), right);
    EXPECT_LE(histogram.quantile_us(share), right * std::exp2(0.25) * 1.0001);
  }
}

TEST(DurationHistogram, TakesWhatNoBucketIsFor) {
  DurationHistogram histogram;
  histogram.add(nanoseconds(-5));
  histogram.add(nanoseconds(0));
  EXPECT_EQ(histogram.counts()[0], 2U);
  histogram.add(std::chrono::hours(24 * 365));
  EXPECT_EQ(histogram.counts().back(), 1U);
}

InstanceStatistics ranks_that_were_busy(std::initializer_list<int> busy) {
  InstanceStatistics instance;
  for (const int ns : busy) {
    RankStatistics rank;
    rank.exchange = nanoseconds(50);
    rank.run = rank.exchange + nanoseconds(ns);
    instance.ranks.push_back(rank);
  }
  return instance;
}

TEST(RankImbalance, IsTheShareOfTheLargestThatOthersDoNotDo) {
  EXPECT_DOUBLE_EQ(*rank_imbalance(ranks_that_were_busy({100, 100})), 0);
  EXPECT_DOUBLE_EQ(*rank_imbalance(ranks_that_were_busy({100, 50})), 0.25);
  EXPECT_DOUBLE_EQ(*rank_imbalance(ranks_that_were_busy({100, 0, 0, 0})), 0.75);
  EXPECT_FALSE(rank_imbalance(ranks_that_were_busy({100})));
  EXPECT_FALSE(rank_imbalance(ranks_that_were_busy({0, 0})));
  InstanceStatistics unknown = ranks_that_were_busy({100, 50});
  unknown.ranks[1].exchange = nanoseconds(0);
  EXPECT_FALSE(rank_imbalance(unknown)) << "a device that does not tell";
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
