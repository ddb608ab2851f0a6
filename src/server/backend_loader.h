// Loads model versions through the backends that a server has.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "server/log.h"
#include "server/metrics/latencies.h"
#include "server/model_backend.h"
#include "server/repository/model_loader.h"
#include "server/scheduler/instance_claims.h"
#include "server/scheduler/rate_limiter.h"
#include "server/scheduler/scheduler.h"

namespace tutti::server {

// Outlives what it has loaded.
class BackendLoader final : public ModelLoader {
 public:
  // The first backend is that of configurations which name none. `cache_bytes`: what models with
  // response_cache share; 0: nothing is cached. `latencies`: what is measured of each model.
  BackendLoader(std::vector<std::unique_ptr<ModelBackend>> backends, std::size_t queue_capacity,
                Log log, RateLimitOptions rate_limit = {}, std::size_t cache_bytes = 0,
                LatencyOptions latencies = {})
      : backends_(std::move(backends)),
        queue_capacity_(queue_capacity),
        rate_limit_(std::move(rate_limit)),
        latencies_(std::move(latencies)),
        cache_(cache_bytes > 0 ? std::make_shared<ResponseCache>(cache_bytes) : nullptr),
        log_(std::move(log)) {}

  Result<std::shared_ptr<LoadedModel>> load(const ModelFolder& folder, const ConfigFile& config,
                                            std::int64_t version,
                                            const ModelFinder& finder) override;

 private:
  Result<std::shared_ptr<LoadedModel>> load_ensemble(const ModelFolder& folder,
                                                     const ConfigFile& file, std::int64_t version,
                                                     const ModelFinder& finder);
  std::shared_ptr<ModelStatistics> make_statistics(const inference::ModelConfig& config) const;
  CacheSlot cache_slot(const inference::ModelConfig& config);
  ModelBackend& find_backend(const inference::ModelConfig& config) const;
  Status check_file(const ModelFolder& folder, const ConfigFile& file) const;
  Result<ScheduledInstance> create_instance(const inference::ModelConfig& config,
                                            const Placement& placement, const std::string& gpu_kind,
                                            ModelSource& source);
  static Status run_warmup(const ModelFolder& folder, const ConfigFile& file,
                           const inference::ModelConfig& config, const ScheduledInstance& instance);

  const std::vector<std::unique_ptr<ModelBackend>> backends_;
  const std::size_t queue_capacity_;
  const RateLimitOptions rate_limit_;
  const LatencyOptions latencies_;
  const std::shared_ptr<ResponseCache> cache_;  // null without --cache-config
  std::atomic<std::uint64_t> loads_{0};
  const Log log_;
  RateLimiter limiter_;  // of what instances of all models share
};

}  // namespace tutti::server
