// Loads model versions through the backends that a server has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "server/log.h"
#include "server/model_backend.h"
#include "server/repository/model_loader.h"
#include "server/scheduler/instance_claims.h"
#include "server/scheduler/rate_limiter.h"
#include "server/scheduler/scheduler.h"

namespace tutti::server {

// Outlives what it has loaded.
class BackendLoader final : public ModelLoader {
 public:
  // The first backend is that of configurations which name none.
  BackendLoader(std::vector<std::unique_ptr<ModelBackend>> backends, std::size_t queue_capacity,
                Log log, RateLimitOptions rate_limit = {})
      : backends_(std::move(backends)),
        queue_capacity_(queue_capacity),
        rate_limit_(std::move(rate_limit)),
        log_(std::move(log)) {}

  Result<std::shared_ptr<LoadedModel>> load(const ModelFolder& folder, const ConfigFile& config,
                                            std::int64_t version,
                                            const ModelFinder& finder) override;

 private:
  ModelBackend& find_backend(const inference::ModelConfig& config) const;
  Result<std::vector<ScheduledInstance>> create_instances(const inference::ModelConfig& config,
                                                          const std::vector<Placement>& placements,
                                                          const std::string& gpu_kind,
                                                          ModelSource& source);

  const std::vector<std::unique_ptr<ModelBackend>> backends_;
  const std::size_t queue_capacity_;
  const RateLimitOptions rate_limit_;
  const Log log_;
  RateLimiter limiter_;  // of what instances of all models share
};

}  // namespace tutti::server
