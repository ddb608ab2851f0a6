#include "server/metrics/latencies.h"

#include <gmock/gmock.h>
#include <prometheus/client_metric.h>

#include <set>

#include "server/statistics.h"

namespace tutti::server {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MetricsConfig, SettingsAreTritons) {
  const auto options =
      parse_metrics_config({"counter_latencies=false", "summary_latencies=true",
                            "histogram_latencies=true", "summary_quantiles=0.5:0.05,0.99:0.001"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_FALSE(options->has_counters);
  EXPECT_TRUE(options->has_summaries);
  EXPECT_TRUE(options->has_histograms);
  EXPECT_THAT(options->quantiles,
              ElementsAre(WantedQuantile{0.5, 0.05}, WantedQuantile{0.99, 0.001}));
}

TEST(MetricsConfig, DefaultsAreTritons) {
  const auto options = parse_metrics_config({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->has_counters);
  EXPECT_FALSE(options->has_summaries);
  EXPECT_FALSE(options->has_histograms);
  EXPECT_EQ(options->quantiles.size(), 5U);
}

TEST(MetricsConfig, WhatIsNoSettingIsNamed) {
  const auto message = [](const std::string& config) {
    return std::string(parse_metrics_config({config}).status().message());
  };
  EXPECT_THAT(message("latencies=true"), HasSubstr("'latencies=true' is no setting"));
  EXPECT_THAT(message("summary_latencies"), HasSubstr("summary_latencies: ''"));
  EXPECT_THAT(message("summary_latencies=1"), HasSubstr("'1', expected true or false"));
  for (const char* bad : {"0.5", "0.5:", ":0.1", "1.5:0.1", "0.5:0.1,", "0.5:0.1x", "nan:0.1"}) {
    EXPECT_THAT(message(std::string("summary_quantiles=") + bad), HasSubstr("QUANTILE:ERROR"))
        << bad;
  }
}

LatencyOptions everything() {
  LatencyOptions options;
  options.has_summaries = options.has_histograms = true;
  return options;
}

RequestTimes took(int request, int queue, int input, int infer) {
  const auto at = [](int us) { return TimePoint() + microseconds(us); };
  return {at(0), at(0), at(queue), at(queue + input), at(queue + input + infer), at(request)};
}

std::set<std::string> collected(const LatencyMetrics& metrics) {
  std::set<std::string> names;
  prometheus::ClientMetric metric;
  for (const auto& family : LatencyMetrics::families(everything())) {
    if (metrics.collect(family.name, &metric)) names.insert(family.name);
  }
  return names;
}

TEST(LatencyMetrics, EachPhaseHasQuantilesOfItsOwn) {
  auto metrics = std::make_shared<LatencyMetrics>(everything(), false, std::vector<double>());
  ModelStatistics statistics(metrics);
  for (int i = 1; i <= 1000; ++i) statistics.record_success(1, took(10 * i, i, 2 * i, 3 * i), 1);
  const std::pair<const char*, double> kScales[] = {{"nv_inference_request_summary_us", 10},
                                                    {"nv_inference_queue_summary_us", 1},
                                                    {"nv_inference_compute_input_summary_us", 2},
                                                    {"nv_inference_compute_infer_summary_us", 3},
                                                    {"nv_inference_compute_output_summary_us", 4}};
  for (const auto& [name, scale] : kScales) {
    prometheus::ClientMetric metric;
    ASSERT_TRUE(metrics->collect(name, &metric)) << name;
    EXPECT_EQ(metric.summary.sample_count, 1000U);
    EXPECT_DOUBLE_EQ(metric.summary.sample_sum, scale * 500500);
    for (const auto& [quantile, error] : everything().quantiles) {
      const auto found =
          std::find_if(metric.summary.quantile.begin(), metric.summary.quantile.end(),
                       [&](const auto& one) { return one.quantile == quantile; });
      ASSERT_NE(found, metric.summary.quantile.end());
      EXPECT_NEAR(found->value, scale * 1000 * quantile, scale * (1000 * error + 1)) << name;
    }
  }
}

TEST(LatencyMetrics, FirstResponsesFallBetweenBounds) {
  LatencyMetrics metrics(everything(), false, {1, 4});
  for (const int ms : {0, 1, 2, 3, 9}) metrics.add_success(took(1000 * ms, 0, 0, 0));
  prometheus::ClientMetric metric;
  ASSERT_TRUE(metrics.collect(kFirstResponseHistogram, &metric));
  EXPECT_EQ(metric.histogram.sample_count, 5U);
  EXPECT_DOUBLE_EQ(metric.histogram.sample_sum, 15);
  std::vector<std::uint64_t> counts;
  for (const auto& bucket : metric.histogram.bucket) counts.push_back(bucket.cumulative_count);
  EXPECT_THAT(counts, ElementsAre(2, 4, 5));
}

TEST(LatencyMetrics, ModelsWithACacheHaveItsTimesInPlaceOfWholeRequests) {
  const LatencyMetrics plain(everything(), false, {});
  const LatencyMetrics cached(everything(), true, {});
  EXPECT_EQ(collected(plain).count("nv_inference_request_summary_us"), 1U);
  EXPECT_EQ(collected(plain).count("nv_cache_hit_summary_per_model"), 0U);
  EXPECT_EQ(collected(cached).count("nv_inference_request_summary_us"), 0U);
  EXPECT_EQ(collected(cached).count("nv_cache_hit_summary_per_model"), 1U);
  EXPECT_EQ(collected(cached).count("nv_cache_miss_summary_per_model"), 1U);
}

}  // namespace
}  // namespace tutti::server
