// What Prometheus reads: the service's statistics under Triton's names, our own per rank, and the
// machine's load. Nothing is counted here: each scrape takes the models' own counters.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "server/metrics/gpus.h"
#include "server/metrics/machine.h"
#include "server/service.h"

namespace tutti::server {

class MetricsCollector {
 public:
  // The machine's load is measured anew at most once an `interval`. `service` outlives it.
  MetricsCollector(const InferenceService& service, std::chrono::milliseconds interval)
      : service_(service), machine_(interval), gpus_(service.gpu(), interval) {}

  // The text format, version 0.0.4. Thread safe.
  std::string scrape();
  // The same for people, as JSON (metrics/status.h). Thread safe.
  std::string status();

 private:
  const InferenceService& service_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  MachineLoad machine_;  // under mutex_
  GpuLoad gpus_;         // under mutex_
};

}  // namespace tutti::server
