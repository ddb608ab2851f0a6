// Loads model versions through the backends that a server has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "server/log.h"
#include "server/model_backend.h"
#include "server/repository/model_loader.h"

namespace tutti::server {

class BackendLoader final : public ModelLoader {
 public:
  // The first backend is that of configurations which name none.
  BackendLoader(std::vector<std::unique_ptr<ModelBackend>> backends, std::size_t queue_capacity,
                Log log)
      : backends_(std::move(backends)), queue_capacity_(queue_capacity), log_(std::move(log)) {}

  Result<std::shared_ptr<LoadedModel>> load(const ModelFolder& folder, const ConfigFile& config,
                                            std::int64_t version) override;

 private:
  ModelBackend& find_backend(const inference::ModelConfig& config) const;

  const std::vector<std::unique_ptr<ModelBackend>> backends_;
  const std::size_t queue_capacity_;
  const Log log_;
};

}  // namespace tutti::server
