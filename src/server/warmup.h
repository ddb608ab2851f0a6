// model_warmup: requests that an instance answers before its model is ready.
#pragma once

#include <model_config.pb.h>

#include <filesystem>
#include <string>

#include "server/config/config_file.h"
#include "server/servable_model.h"

namespace tutti::server {

// What can be said without running anything: samples name each input of the configuration once,
// with its type, sizes that fit and data of some kind. `config` is complete.
Status check_warmup(const ConfigFile& file, const inference::ModelConfig& config);

// Runs each sample of the configuration as often as it says; data files are in `folder`/warmup.
// Errors name the sample.
Status warm_up(const ConfigFile& file, const inference::ModelConfig& config,
               const std::filesystem::path& folder, ServableModel& model);

}  // namespace tutti::server
