#include "server/metrics/status.h"

#include <map>
#include <utility>

#include "server/json/proto.h"
#include "tutti/version.h"

namespace tutti::server {
namespace {

double micros(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

Json durations(const StatisticsSnapshot& statistics) {
  return {{"request", micros(statistics.success.ns)},
          {"queue", micros(statistics.queue.ns)},
          {"compute_input", micros(statistics.phases.compute_input.ns)},
          {"compute_infer", micros(statistics.phases.compute_infer.ns)},
          {"compute_output", micros(statistics.phases.compute_output.ns)}};
}

// Since the model was loaded; from the buckets of two documents follows what was in between.
Json latency(const DurationHistogram& histogram) {
  Json buckets = Json::array();
  for (std::size_t i = 0; i < DurationHistogram::kBuckets; ++i) {
    if (histogram.counts()[i] > 0) {
      buckets.push_back({DurationHistogram::bound_us(i), histogram.counts()[i]});
    }
  }
  return {{"p50_us", histogram.quantile_us(0.50)},
          {"p90_us", histogram.quantile_us(0.90)},
          {"p99_us", histogram.quantile_us(0.99)},
          {"buckets", std::move(buckets)}};
}

Json failures(const StatisticsSnapshot& statistics) {
  Json reasons = Json::object();
  for (const FailureReason reason : kFailureReasons) {
    reasons[std::string(failure_reason_name(reason))] =
        statistics.failures[static_cast<std::size_t>(reason)];
  }
  return reasons;
}

Json instance_json(const InstanceStatistics& instance) {
  Json ranks = Json::array();
  for (const RankStatistics& rank : instance.ranks) {
    ranks.push_back({{"memory_bytes", rank.memory_bytes},
                     {"sent_bytes", rank.sent_bytes},
                     {"run_us", static_cast<double>(rank.run.count()) / 1000},
                     {"exchange_us", static_cast<double>(rank.exchange.count()) / 1000}});
  }
  const std::optional<double> imbalance = rank_imbalance(instance);
  return {{"rebuilds", instance.rebuilds},
          {"imbalance", imbalance ? Json(*imbalance) : Json()},
          {"ranks", std::move(ranks)}};
}

// What the driver does not tell is null.
Json gpu_json(const DeviceLoad& gpu) {
  const auto told = [](double value) { return value < 0 ? Json() : Json(value); };
  return {{"uuid", gpu.uuid},
          {"utilization", told(gpu.utilization)},
          {"memory_total_bytes", told(gpu.memory_total_bytes)},
          {"memory_used_bytes", told(gpu.memory_used_bytes)},
          {"power_watts", told(gpu.power_watts)}};
}

void add_statistics(const ModelStatisticsEntry& entry, Json* model) {
  const StatisticsSnapshot& statistics = entry.statistics;
  Json instances = Json::array();
  for (const InstanceStatistics& instance : entry.instances) {
    instances.push_back(instance_json(instance));
  }
  model->update({{"ready", entry.is_ready},
                 {"pending", entry.pending},
                 {"load_seconds", entry.load_seconds},
                 {"success", statistics.success.count},
                 {"fail", statistics.fail.count},
                 {"failures", failures(statistics)},
                 {"inference_count", statistics.inference_count},
                 {"execution_count", statistics.execution_count},
                 {"last_inference_ms", statistics.last_inference_ms},
                 {"duration_us", durations(statistics)},
                 {"latency", latency(statistics.latency)},
                 {"instances", std::move(instances)}});
  if (!entry.uses_cache) return;
  (*model)["cache"] = {{"hits", statistics.cache_hit.count},
                       {"misses", statistics.cache_miss.count}};
}

}  // namespace

std::string status_json(const InferenceService& service, const MachineSample& machine,
                        std::span<const DeviceLoad> gpus, std::chrono::nanoseconds uptime) {
  const std::chrono::milliseconds now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  Json json;
  json["server"] = {{"name", "tutti"},
                    {"version", TUTTI_VERSION},
                    {"ready", service.is_ready()},
                    {"uptime_seconds", std::chrono::duration<double>(uptime).count()},
                    {"time_ms", now.count()}};
  json["machine"] = {{"cpu_utilization", machine.cpu_utilization},
                     {"memory_total_bytes", machine.memory_total},
                     {"memory_used_bytes", machine.memory_used}};
  Json& devices = json["gpus"] = Json::array();
  for (const DeviceLoad& gpu : gpus) devices.push_back(gpu_json(gpu));
  std::map<std::pair<std::string, std::string>, ModelStatisticsEntry> running;
  if (auto entries = service.statistics("", ""); entries.ok()) {
    for (ModelStatisticsEntry& entry : *entries) {
      running.emplace(std::pair(entry.name, entry.version), std::move(entry));
    }
  }
  Json& models = json["models"] = Json::array();
  if (const auto index = service.repository_index("", false); index.ok()) {
    for (const IndexEntry& entry : *index) {
      Json model = {{"name", entry.name},
                    {"version", entry.version},
                    {"state", entry.state},
                    {"reason", entry.reason}};
      const auto found = running.find({entry.name, entry.version});
      if (found != running.end()) add_statistics(found->second, &model);
      models.push_back(std::move(model));
    }
  }
  return json_text(json);
}

}  // namespace tutti::server
