// What a load request brings along instead of what lies in the repository.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/config/config_file.h"
#include "server/parameters.h"

namespace tutti::server {

struct LoadOverride {
  std::string config;                        // ModelConfig as JSON; "": the folder's config.pbtxt
  std::map<std::string, std::string> files;  // "1/model.plan" and its content
  bool empty() const { return config.empty() && files.empty(); }
};

// The parameters `config` and `file:VERSION/NAME`. INVALID_ARGUMENT: others, other kinds, files
// without a config, paths that are no file of a version folder.
Result<LoadOverride> parse_load_parameters(const ParameterMap& parameters);

// Errors say what is wrong with the JSON, and later with the fields, as those of a file do.
Result<ConfigFile> override_config(const std::string& json);

// The files in a folder of their own, which goes away with the object.
class OverrideFolder {
 public:
  static Result<std::unique_ptr<OverrideFolder>> create(
      const std::map<std::string, std::string>& files);
  ~OverrideFolder();
  OverrideFolder(const OverrideFolder&) = delete;
  OverrideFolder& operator=(const OverrideFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  OverrideFolder() = default;
  std::filesystem::path path_;
};

}  // namespace tutti::server
