#include "server/repository/load_override.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "server/names.h"

namespace tutti::server {
namespace {

constexpr std::string_view kFile = "file:";

// "VERSION/NAME": one version folder, one file.
bool is_file_path(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view name = path.substr(slash + 1);
  std::int64_t version = 0;
  return is_version_folder(path.substr(0, slash), &version) && check_model_name(name).ok();
}

Status cannot_write(const std::filesystem::path& path) {
  return internal_error("'", path.string(), "' cannot be written: ", std::strerror(errno));
}

}  // namespace

Result<LoadOverride> parse_load_parameters(const ParameterMap& parameters) {
  LoadOverride parsed;
  for (const auto& [name, value] : parameters) {
    const std::string label = str_cat("load parameter '", printable(name), "'");
    const auto* text = std::get_if<std::string>(&value);
    if (name != "config" && !name.starts_with(kFile)) {
      return invalid_argument(label, " is not known, expected 'config' or 'file:VERSION/NAME'");
    }
    if (text == nullptr) return invalid_argument(label, " is no text");
    if (name == "config") {
      parsed.config = *text;
      continue;
    }
    const std::string path = name.substr(kFile.size());
    if (!is_file_path(path)) {
      return invalid_argument(label, " is no file of a version, expected 'file:VERSION/NAME'");
    }
    parsed.files[path] = *text;
  }
  if (!parsed.files.empty() && parsed.config.empty()) {
    return invalid_argument("load parameter '",
                            printable(str_cat(kFile, parsed.files.begin()->first)),
                            "' needs 'config' beside it");
  }
  return parsed;
}

Result<ConfigFile> override_config(const std::string& json) {
  constexpr const char* kLabel = "load parameter 'config'";
  inference::ModelConfig config;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &config);
  if (!parsed.ok()) {
    return invalid_argument(kLabel, ": ", printable(parsed.ToString()));
  }
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(config, &text)) {
    return internal_error(kLabel, " cannot be written as text");
  }
  return ConfigFile::parse(std::move(text), kLabel);
}

Result<std::unique_ptr<OverrideFolder>> OverrideFolder::create(
    const std::map<std::string, std::string>& files) {
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  std::string pattern = (parent / "tutti-model-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr) return cannot_write(pattern);
  std::unique_ptr<OverrideFolder> folder(new OverrideFolder());
  folder->path_ = pattern;
  for (const auto& [name, content] : files) {
    const auto path = folder->path_ / name;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (error || !file) return cannot_write(path);
  }
  return folder;
}

OverrideFolder::~OverrideFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tutti::server
