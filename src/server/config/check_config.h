// Triton's rules for a model configuration, and ours where Tutti differs (docs/serving.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/config_file.h"
#include "server/config/model_facts.h"

namespace tutti::server {

// What can be said without opening the model: name against folder, backend and platform among
// `known`, max_batch_size, version policy, instance groups, file name, fields that Tutti does not
// have. `warnings` gets one line for each setting that has no effect here.
Status check_config_file(const ConfigFile& file, std::string_view folder_name,
                         const std::vector<BackendName>& known, const DeviceFacts& devices,
                         std::vector<std::string>* warnings);

// Fills in what the file leaves out: name, backend, platform, inputs, outputs (max_batch_size stays
// 0 then), instance_group (all GPUs of the server where it has some, else the CPU),
// default_model_filename, version_policy.
inference::ModelConfig complete_config(const ConfigFile& file, std::string_view folder_name,
                                       const BackendName& backend, const ModelFacts& model,
                                       const DeviceFacts& devices = {"cpu", 0});

// The same for an ensemble: name, platform, version_policy.
inference::ModelConfig complete_ensemble_config(const ConfigFile& file,
                                                std::string_view folder_name);

// A complete configuration against the model: inputs and outputs the same, dtypes equal, dims no
// wider, max_batch_size within what the first dimension takes. The messages name `file`.
Status check_config_model(const ConfigFile& file, const inference::ModelConfig& config,
                          const ModelFacts& model);

}  // namespace tutti::server
