// What Prometheus reads: the service's statistics under Triton's names, our own per rank, and the
// machine's load. Nothing is counted here: each scrape takes the models' own counters.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "server/metrics/gpus.h"
#include "server/metrics/latencies.h"
#include "server/metrics/machine.h"
#include "server/service.h"

namespace tutti::server {

struct MetricsOptions {
  std::chrono::milliseconds interval{2000};  // between two looks at the machine's load
  bool has_cpu = true;
  bool has_gpus = true;
  LatencyOptions latencies;
};

class MetricsCollector {
 public:
  // `service` outlives it.
  MetricsCollector(const InferenceService& service, MetricsOptions options)
      : service_(service),
        options_(std::move(options)),
        machine_(options_.interval),
        gpus_(service.gpu(), options_.interval) {}

  // The text format, version 0.0.4. Thread safe.
  std::string scrape();
  // The same for people, as JSON (metrics/status.h). Thread safe.
  std::string status();

 private:
  const InferenceService& service_;
  const MetricsOptions options_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  MachineLoad machine_;  // under mutex_
  GpuLoad gpus_;         // under mutex_
};

}  // namespace tutti::server
