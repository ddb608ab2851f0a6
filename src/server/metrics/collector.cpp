#include "server/metrics/collector.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "server/metrics/status.h"

namespace tutti::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using Entries = std::vector<ModelStatisticsEntry>;

class Families {
 public:
  void begin(std::string name, std::string help, MetricType type) {
    MetricFamily family;
    family.name = std::move(name);
    family.help = std::move(help);
    family.type = type;
    families_.push_back(std::move(family));
  }
  void add(Labels labels, double value) {
    ClientMetric metric;
    (families_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        value;
    add(std::move(labels), std::move(metric));
  }
  void add(Labels labels, ClientMetric metric) {
    metric.label = std::move(labels);
    families_.back().metric.push_back(std::move(metric));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<MetricFamily> families_;
};

Labels model_labels(const ModelStatisticsEntry& entry) {
  Labels labels{{"model", entry.name}, {"version", entry.version}};
  for (const auto& [tag, value] : entry.tags) labels.push_back({"_" + tag, value});
  return labels;
}

Labels with(Labels labels, std::string name, std::string value) {
  labels.push_back({std::move(name), std::move(value)});
  return labels;
}

double micros(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

double micros(const DurationStatistic& duration) { return static_cast<double>(duration.ns) / 1000; }

using Value = double (*)(const ModelStatisticsEntry&);

struct ModelMetric {
  const char* name;
  const char* help;
  MetricType type;
  Value value;
};

constexpr ModelMetric kModelMetrics[] = {
    {"nv_inference_request_success", "Number of successful inference requests, all batch sizes",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return static_cast<double>(e.statistics.success.count); }},
    {"nv_inference_count", "Number of inferences performed (does not include cached requests)",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) {
       return static_cast<double>(e.statistics.inference_count);
     }},
    {"nv_inference_exec_count", "Number of model executions performed", MetricType::Counter,
     [](const ModelStatisticsEntry& e) {
       return static_cast<double>(e.statistics.execution_count);
     }},
    {"nv_inference_pending_request_count",
     "Instantaneous number of pending requests awaiting execution per-model.", MetricType::Gauge,
     [](const ModelStatisticsEntry& e) { return static_cast<double>(e.pending); }},
    {"nv_model_load_duration_secs", "Model load time in seconds", MetricType::Gauge,
     [](const ModelStatisticsEntry& e) { return e.load_seconds; }},
    {"tutti_model_ready", "1 while the model's rank groups can serve", MetricType::Gauge,
     [](const ModelStatisticsEntry& e) { return e.is_ready ? 1.0 : 0.0; }},
};

constexpr ModelMetric kDurationMetrics[] = {
    {"nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.success); }},
    {"nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
     MetricType::Counter, [](const ModelStatisticsEntry& e) { return micros(e.statistics.queue); }},
    {"nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.phases.compute_input); }},
    {"nv_inference_compute_infer_duration_us",
     "Cumulative compute inference duration in microseconds", MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.phases.compute_infer); }},
    {"nv_inference_compute_output_duration_us",
     "Cumulative inference compute output duration in microseconds", MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.phases.compute_output); }},
};

constexpr ModelMetric kCacheMetrics[] = {
    {"nv_cache_num_hits_per_model", "Number of cache hits per model", MetricType::Counter,
     [](const ModelStatisticsEntry& e) {
       return static_cast<double>(e.statistics.cache_hit.count);
     }},
    {"nv_cache_num_misses_per_model", "Number of cache misses per model", MetricType::Counter,
     [](const ModelStatisticsEntry& e) {
       return static_cast<double>(e.statistics.cache_miss.count);
     }},
    {"nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.cache_hit); }},
    {"nv_cache_miss_duration_per_model", "Total cache miss duration per model, in microseconds",
     MetricType::Counter,
     [](const ModelStatisticsEntry& e) { return micros(e.statistics.cache_miss); }},
};

void add_models(std::span<const ModelMetric> metrics, const Entries& entries,
                bool (*is_wanted)(const ModelStatisticsEntry&), Families* families) {
  for (const ModelMetric& metric : metrics) {
    families->begin(metric.name, metric.help, metric.type);
    for (const auto& entry : entries) {
      if (is_wanted(entry)) families->add(model_labels(entry), metric.value(entry));
    }
  }
}

void add_latencies(const LatencyOptions& options, const Entries& entries, Families* families) {
  for (const LatencyMetrics::Family& family : LatencyMetrics::families(options)) {
    families->begin(family.name, family.help,
                    family.is_histogram ? MetricType::Histogram : MetricType::Summary);
    for (const ModelStatisticsEntry& entry : entries) {
      ClientMetric metric;
      if (!entry.latencies || !entry.latencies->collect(family.name, &metric)) continue;
      families->add(model_labels(entry), std::move(metric));
    }
  }
}

void add_failures(const Entries& entries, Families* families) {
  families->begin("nv_inference_request_failure",
                  "Number of failed inference requests, all batch sizes", MetricType::Counter);
  for (const ModelStatisticsEntry& entry : entries) {
    for (const FailureReason reason : kFailureReasons) {
      const auto count = entry.statistics.failures[static_cast<std::size_t>(reason)];
      families->add(with(model_labels(entry), "reason", std::string(failure_reason_name(reason))),
                    static_cast<double>(count));
    }
  }
}

void add_ranks(const Entries& entries, Families* families) {
  const auto each = [&](std::string name, std::string help, MetricType type, auto value) {
    families->begin(std::move(name), std::move(help), type);
    for (const ModelStatisticsEntry& entry : entries) {
      for (std::size_t i = 0; i < entry.instances.size(); ++i) {
        const Labels labels = with(model_labels(entry), "instance", std::to_string(i));
        for (std::size_t r = 0; r < entry.instances[i].ranks.size(); ++r) {
          families->add(with(labels, "rank", std::to_string(r)),
                        static_cast<double>(value(entry.instances[i].ranks[r])));
        }
      }
    }
  };
  each("tutti_rank_memory_bytes", "Device memory that a rank holds", MetricType::Gauge,
       [](const RankStatistics& rank) { return rank.memory_bytes; });
  each("tutti_rank_exchange_sent_bytes", "Bytes that a rank sent to others in exchanges",
       MetricType::Counter, [](const RankStatistics& rank) { return rank.sent_bytes; });
  each("tutti_rank_run_duration_us", "Cumulative time that a rank ran, waiting for others included",
       MetricType::Counter, [](const RankStatistics& rank) { return micros(rank.run); });
  each("tutti_rank_exchange_duration_us",
       "Cumulative time of it in exchanges, where the device lets the host see it",
       MetricType::Counter, [](const RankStatistics& rank) { return micros(rank.exchange); });
}

void add_instances(const Entries& entries, Families* families) {
  const auto each = [&](std::string name, std::string help, MetricType type, auto value) {
    families->begin(std::move(name), std::move(help), type);
    for (const ModelStatisticsEntry& entry : entries) {
      for (std::size_t i = 0; i < entry.instances.size(); ++i) {
        const std::optional<double> number = value(entry.instances[i]);
        if (!number) continue;
        families->add(with(model_labels(entry), "instance", std::to_string(i)), *number);
      }
    }
  };
  each("tutti_instance_rebuilds", "How often an instance's ranks were made anew after a failure",
       MetricType::Counter, [](const InstanceStatistics& instance) {
         return std::optional(static_cast<double>(instance.rebuilds));
       });
  each("tutti_instance_imbalance",
       "1 - mean / largest of its ranks' time outside exchanges, since they were made",
       MetricType::Gauge, rank_imbalance);
}

void add_machine(const MachineSample& sample, Families* families) {
  families->begin("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", MetricType::Gauge);
  families->add({}, sample.cpu_utilization);
  families->begin("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes",
                  MetricType::Gauge);
  families->add({}, static_cast<double>(sample.memory_total));
  families->begin("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", MetricType::Gauge);
  families->add({}, static_cast<double>(sample.memory_used));
}

struct GpuMetric {
  const char* name;
  const char* help;
  MetricType type;
  double DeviceLoad::*value;
};

constexpr GpuMetric kGpuMetrics[] = {
    {"nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", MetricType::Gauge,
     &DeviceLoad::utilization},
    {"nv_gpu_memory_total_bytes", "GPU total memory, in bytes", MetricType::Gauge,
     &DeviceLoad::memory_total_bytes},
    {"nv_gpu_memory_used_bytes", "GPU used memory, in bytes", MetricType::Gauge,
     &DeviceLoad::memory_used_bytes},
    {"nv_gpu_power_usage", "GPU power usage in watts", MetricType::Gauge, &DeviceLoad::power_watts},
    {"nv_gpu_power_limit", "GPU power management limit in watts", MetricType::Gauge,
     &DeviceLoad::power_limit_watts},
    {"nv_energy_consumption", "GPU energy consumption in joules since the server started",
     MetricType::Counter, &DeviceLoad::energy_joules},
};

// Without GPUs there are no such metrics; what a card does not tell is left out.
void add_gpus(const std::vector<DeviceLoad>& gpus, Families* families) {
  if (gpus.empty()) return;
  for (const GpuMetric& metric : kGpuMetrics) {
    families->begin(metric.name, metric.help, metric.type);
    for (const DeviceLoad& gpu : gpus) {
      if (gpu.*metric.value >= 0) families->add({{"gpu_uuid", gpu.uuid}}, gpu.*metric.value);
    }
  }
}

}  // namespace

std::string MetricsCollector::scrape() {
  const auto entries = service_.statistics("", "");
  Families families;
  if (entries.ok()) {
    add_models(
        kModelMetrics, *entries, [](const auto&) { return true; }, &families);
    if (options_.latencies.has_counters) {
      add_models(
          kDurationMetrics, *entries, [](const auto&) { return true; }, &families);
      add_models(
          kCacheMetrics, *entries, [](const auto& entry) { return entry.uses_cache; }, &families);
    }
    add_latencies(options_.latencies, *entries, &families);
    add_failures(*entries, &families);
    add_ranks(*entries, &families);
    add_instances(*entries, &families);
  }
  const TraceCounts traces = service_.traces().counts();
  families.begin("tutti_trace_exported", "Spans sent (mode triton: traces given to files)",
                 MetricType::Counter);
  families.add({}, static_cast<double>(traces.exported));
  families.begin("tutti_trace_dropped", "The same that were lost: no room, or no collector",
                 MetricType::Counter);
  families.add({}, static_cast<double>(traces.dropped));
  {
    const std::lock_guard lock(mutex_);
    if (options_.has_cpu) add_machine(machine_.sample(), &families);
    if (options_.has_gpus) add_gpus(gpus_.sample(), &families);
  }
  return families.text();
}

std::string MetricsCollector::status() {
  MachineSample machine;
  std::vector<DeviceLoad> gpus;
  {
    const std::lock_guard lock(mutex_);
    machine = machine_.sample();
    gpus = gpus_.sample();
  }
  return status_json(service_, machine, gpus, std::chrono::steady_clock::now() - started_);
}

}  // namespace tutti::server
