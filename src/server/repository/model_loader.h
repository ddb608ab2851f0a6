// Makes versions of models ready to serve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/config/config_file.h"
#include "server/loaded_model.h"
#include "server/repository/folders.h"

namespace tutti::server {

// Where an ensemble finds the models of its steps.
class ModelFinder {
 public:
  virtual ~ModelFinder() = default;
  // version "": the newest that is ready. NOT_FOUND, UNAVAILABLE.
  virtual Result<std::shared_ptr<LoadedModel>> find(const std::string& name,
                                                    std::string_view version) const = 0;
};

class ModelLoader {
 public:
  virtual ~ModelLoader() = default;
  // Checks the configuration and loads one version. Called by several threads for different models.
  // `finder` outlives what is loaded.
  virtual Result<std::shared_ptr<LoadedModel>> load(const ModelFolder& folder,
                                                    const ConfigFile& config, std::int64_t version,
                                                    const ModelFinder& finder) = 0;
};

}  // namespace tutti::server
