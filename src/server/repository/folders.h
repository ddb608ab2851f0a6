// What lies on disk: model folders, their configuration and their version folders.
#pragma once

#include <model_config.pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/config/config_file.h"
#include "server/log.h"

namespace tutti::server {

struct ModelFolder {
  std::string name;  // of the folder
  std::filesystem::path path;
};

// Finds `name` below the repositories. NOT_FOUND when no repository has it, INVALID_ARGUMENT when
// several have (both are named). `name` has passed check_model_name.
Result<ModelFolder> find_model_folder(const std::vector<std::string>& repositories,
                                      const std::string& name);

// Names of all folders below the repositories, sorted, each once. Hidden ones (".git") are no
// models.
Result<std::vector<std::string>> list_model_names(const std::vector<std::string>& repositories);

// configs/NAME.pbtxt of the folder where a name is given and the file there, else config.pbtxt, or
// an absent one.
Result<ConfigFile> read_model_config(const ModelFolder& folder, const std::string& config_name);

// The version folders, newest first. Numbers with leading zeros are left out with a warning, other
// names silently.
Result<std::vector<std::int64_t>> list_versions(const ModelFolder& folder, const Log& log);

// Changes when a file below the folder comes, goes, or changes its size or time of change; the text
// of the error where the folder cannot be read.
std::string folder_fingerprint(const std::filesystem::path& folder);

// Those of `available` (newest first) that the policy asks for; none chosen: the newest.
// INVALID_ARGUMENT when a specific version is not there or when none is chosen.
Result<std::vector<std::int64_t>> choose_versions(const inference::ModelVersionPolicy& policy,
                                                  const std::vector<std::int64_t>& available);

}  // namespace tutti::server
