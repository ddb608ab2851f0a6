// Makes versions of models ready to serve.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "server/config/config_file.h"
#include "server/loaded_model.h"
#include "server/repository/folders.h"

namespace tutti::server {

class ModelLoader {
 public:
  virtual ~ModelLoader() = default;
  // Checks the configuration and loads one version. Called by several threads for different models.
  virtual Result<std::shared_ptr<LoadedModel>> load(const ModelFolder& folder,
                                                    const ConfigFile& config,
                                                    std::int64_t version) = 0;
};

}  // namespace tutti::server
