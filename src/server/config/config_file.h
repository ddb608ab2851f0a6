// A model's config.pbtxt: Triton's ModelConfig in protobuf's text format.
#pragma once

#include <google/protobuf/text_format.h>
#include <model_config.pb.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::server {

// Immutable; copies share.
class ConfigFile {
 public:
  // The file must exist. Errors name file, line, column and what the parser met.
  static Result<ConfigFile> read(const std::string& path);
  static Result<ConfigFile> parse(std::string text, std::string path);
  // For a model folder without the file: everything is completed from the model.
  static ConfigFile absent(std::string path);

  const inference::ModelConfig& config() const { return *config_; }
  const std::string& path() const { return path_; }

  // INVALID_ARGUMENT "path:line: field: message". `field` is a path such as
  // `instance_group[0].gpus` or `parameters["key"]`; the line is that of its longest part that the
  // file holds (of the whole list for `[ {..}, {..} ]`), and is left out when it holds none.
  template <class... Args>
  Status error(std::string_view field, const Args&... args) const {
    return invalid_argument(location(field), ": ", field, ": ", args...);
  }
  std::string location(std::string_view field) const;  // "path:line"

 private:
  int line_of(std::string_view field) const;  // from 1; 0 when unknown

  std::string path_;
  std::string text_;
  std::shared_ptr<const inference::ModelConfig> config_;
  std::shared_ptr<const google::protobuf::TextFormat::ParseInfoTree> lines_;
};

}  // namespace tutti::server
