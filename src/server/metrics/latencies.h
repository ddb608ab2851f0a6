// What Triton's --metrics-config adds to the sums of a model's times: quantiles and a histogram.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/scheduler/pending_request.h"

namespace prometheus {
struct ClientMetric;
}

namespace tutti::server {

struct WantedQuantile {
  double quantile;  // 0 to 1
  double error;     // the answer lies between the quantiles that are so far off
  bool operator==(const WantedQuantile&) const = default;
};

struct LatencyOptions {
  bool has_counters = true;  // nv_inference_*_duration_us
  bool has_summaries = false;
  bool has_histograms = false;
  std::vector<WantedQuantile> quantiles = {
      {0.5, 0.05}, {0.9, 0.01}, {0.95, 0.001}, {0.99, 0.001}, {0.999, 0.001}};
};

// The values of --metrics-config: "counter_latencies=false", "summary_latencies=true",
// "summary_quantiles=0.5:0.05,0.99:0.001", "histogram_latencies=true". INVALID_ARGUMENT names the
// setting and what was expected.
Result<LatencyOptions> parse_metrics_config(const std::vector<std::string>& configs);

inline constexpr std::string_view kFirstResponseHistogram =
    "nv_inference_first_response_histogram_ms";

// Of one model version; thread safe. Quantiles are over the last minute, as Triton's: by the
// algorithm of Cormode, Korn, Muthukrishnan and Srivastava in prometheus-cpp. Of a model that uses
// the response cache there is no summary of whole requests.
class LatencyMetrics {
 public:
  // `buckets`: upper bounds in ms of the histogram, ascending; none: Triton's.
  LatencyMetrics(const LatencyOptions& options, bool uses_cache, std::vector<double> buckets);
  ~LatencyMetrics();

  void add_success(const RequestTimes& times);
  void add_cache_hit(std::chrono::nanoseconds request, std::chrono::nanoseconds lookup);
  void add_cache_miss(std::chrono::nanoseconds duration);

  struct Family {
    const char* name;
    const char* help;
    bool is_histogram;
  };
  // Every family that a model may have with these options.
  static std::vector<Family> families(const LatencyOptions& options);
  // The value of a family for this model, labels left to the caller; false where it has none.
  bool collect(std::string_view family, prometheus::ClientMetric* metric) const;

 private:
  struct Metrics;
  const std::unique_ptr<Metrics> metrics_;
};

}  // namespace tutti::server
