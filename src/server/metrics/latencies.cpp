#include "server/metrics/latencies.h"

#include <prometheus/histogram.h>
#include <prometheus/summary.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "server/names.h"

namespace tutti::server {
namespace {

enum Part { kRequest, kQueue, kInput, kInfer, kOutput, kCacheHit, kCacheMiss, kParts };

// By Part.
constexpr std::array<LatencyMetrics::Family, kParts> kSummaries = {{
    {"nv_inference_request_summary_us",
     "Summary of inference request duration in microseconds (includes cached requests)", false},
    {"nv_inference_queue_summary_us",
     "Summary of inference queuing duration in microseconds (includes cached requests)", false},
    {"nv_inference_compute_input_summary_us",
     "Summary of compute input duration in microseconds (does not include cached requests)", false},
    {"nv_inference_compute_infer_summary_us",
     "Summary of compute inference duration in microseconds (does not include cached requests)",
     false},
    {"nv_inference_compute_output_summary_us",
     "Summary of inference compute output duration in microseconds (does not include cached "
     "requests)",
     false},
    {"nv_cache_hit_summary_per_model",
     "Summary of cache hit counts/durations per model, in microseconds.", false},
    {"nv_cache_miss_summary_per_model",
     "Summary of cache miss counts/durations per model, in microseconds.", false},
}};
constexpr LatencyMetrics::Family kHistogram = {
    kFirstResponseHistogram.data(), "Duration from request to first response in milliseconds",
    true};

bool belongs(Part part, bool uses_cache) {
  if (part == kRequest) return !uses_cache;
  return uses_cache || (part != kCacheHit && part != kCacheMiss);
}

double micros(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

double millis(std::chrono::nanoseconds time) { return micros(time) / 1000; }

Result<bool> parse_bool(std::string_view setting, std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  return invalid_argument(setting, ": '", printable(value), "', expected true or false");
}

std::optional<double> parse_share(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && share >= 0 && share <= 1 ? std::optional(share) : std::nullopt;
}

Result<std::vector<WantedQuantile>> parse_quantiles(std::string_view text) {
  std::vector<WantedQuantile> quantiles;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    const std::size_t colon = pair.find(':');
    const auto quantile = parse_share(pair.substr(0, colon));
    const auto error =
        colon == std::string_view::npos ? std::nullopt : parse_share(pair.substr(colon + 1));
    if (!quantile || !error) {
      return invalid_argument("summary_quantiles: '", printable(pair),
                              "', expected QUANTILE:ERROR, both 0 to 1, such as 0.99:0.001");
    }
    quantiles.push_back({*quantile, *error});
    if (comma == std::string_view::npos) return quantiles;
    text.remove_prefix(comma + 1);
  }
}

Status set_metric(std::string_view config, LatencyOptions* options) {
  const std::size_t equals = config.find('=');
  const std::string_view setting = config.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : config.substr(equals + 1);
  if (setting == "summary_quantiles") {
    TUTTI_ASSIGN_OR_RETURN(options->quantiles, parse_quantiles(value));
    return Status();
  }
  bool* const flag = setting == "counter_latencies"     ? &options->has_counters
                     : setting == "summary_latencies"   ? &options->has_summaries
                     : setting == "histogram_latencies" ? &options->has_histograms
                                                        : nullptr;
  if (flag == nullptr) {
    return invalid_argument("'", printable(config),
                            "' is no setting, expected counter_latencies=BOOL, "
                            "summary_latencies=BOOL, summary_quantiles=QUANTILE:ERROR[,...] or "
                            "histogram_latencies=BOOL");
  }
  TUTTI_ASSIGN_OR_RETURN(*flag, parse_bool(setting, value));
  return Status();
}

}  // namespace

Result<LatencyOptions> parse_metrics_config(const std::vector<std::string>& configs) {
  LatencyOptions options;
  for (const std::string& config : configs) TUTTI_RETURN_IF_ERROR(set_metric(config, &options));
  return options;
}

struct LatencyMetrics::Metrics {
  std::array<std::unique_ptr<prometheus::Summary>, kParts> summaries;  // null: not wanted
  std::unique_ptr<prometheus::Histogram> histogram;                    // likewise

  void observe(Part part, std::chrono::nanoseconds time) const {
    if (summaries[part]) summaries[part]->Observe(micros(time));
  }
  void respond(std::chrono::nanoseconds time) const {
    observe(kRequest, time);
    if (histogram) histogram->Observe(millis(time));
  }
};

LatencyMetrics::LatencyMetrics(const LatencyOptions& options, bool uses_cache,
                               std::vector<double> buckets)
    : metrics_(std::make_unique<Metrics>()) {
  if (options.has_histograms) {
    if (buckets.empty()) buckets = {100, 500, 2000, 5000};
    metrics_->histogram = std::make_unique<prometheus::Histogram>(buckets);
  }
  if (!options.has_summaries) return;
  prometheus::Summary::Quantiles quantiles;
  for (const auto& [quantile, error] : options.quantiles) quantiles.emplace_back(quantile, error);
  for (int part = 0; part < kParts; ++part) {
    if (!belongs(static_cast<Part>(part), uses_cache)) continue;
    metrics_->summaries[part] = std::make_unique<prometheus::Summary>(quantiles);
  }
}

LatencyMetrics::~LatencyMetrics() = default;

void LatencyMetrics::add_success(const RequestTimes& times) {
  metrics_->respond(times.finished - times.arrived);
  metrics_->observe(kQueue, times.started - times.queued);
  metrics_->observe(kInput, times.inputs_ready - times.started);
  metrics_->observe(kInfer, times.outputs_started - times.inputs_ready);
  metrics_->observe(kOutput, times.finished - times.outputs_started);
}

void LatencyMetrics::add_cache_hit(std::chrono::nanoseconds request,
                                   std::chrono::nanoseconds lookup) {
  metrics_->respond(request);
  metrics_->observe(kCacheHit, lookup);
}

void LatencyMetrics::add_cache_miss(std::chrono::nanoseconds duration) {
  metrics_->observe(kCacheMiss, duration);
}

std::vector<LatencyMetrics::Family> LatencyMetrics::families(const LatencyOptions& options) {
  std::vector<Family> families;
  if (options.has_summaries) families.assign(kSummaries.begin(), kSummaries.end());
  if (options.has_histograms) families.push_back(kHistogram);
  return families;
}

bool LatencyMetrics::collect(std::string_view family, prometheus::ClientMetric* metric) const {
  if (family == kHistogram.name) {
    if (metrics_->histogram) *metric = metrics_->histogram->Collect();
    return metrics_->histogram != nullptr;
  }
  for (int part = 0; part < kParts; ++part) {
    const auto& summary = metrics_->summaries[part];
    if (!summary || family != kSummaries[part].name) continue;
    *metric = summary->Collect();
    return true;
  }
  return false;
}

}  // namespace tutti::server
