#include "server/repository/folders.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <system_error>

#include "base/hash.h"
#include "server/names.h"

namespace tutti::server {
namespace {

namespace fs = std::filesystem;

// Calls visit(path) for each folder directly below `folder`.
Status for_each_folder(const fs::path& folder, const std::function<void(const fs::path&)>& visit) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) visit(entry->path());
  }
  if (error) return not_found("folder '", folder.string(), "': ", error.message());
  return Status();
}

Status check_repository(const std::string& repository) {
  if (repository.find("://") != std::string::npos) {
    return invalid_argument("'", repository, "' is remote, expected a folder of this machine");
  }
  std::error_code ignored;
  if (fs::is_regular_file(fs::path(repository) / "config.pbtxt", ignored)) {
    return invalid_argument("folder '", repository,
                            "' has a config.pbtxt and is one model's, expected the folder of such "
                            "folders");
  }
  return Status();
}

}  // namespace

Result<ModelFolder> find_model_folder(const std::vector<std::string>& repositories,
                                      const std::string& name) {
  std::vector<fs::path> found;
  for (const std::string& repository : repositories) {
    std::error_code ignored;
    const fs::path path = fs::path(repository) / name;
    if (fs::is_directory(path, ignored)) found.push_back(path);
  }
  if (found.empty()) {
    return not_found("no folder '", printable(name), "' in the model repositories");
  }
  if (found.size() > 1) {
    return invalid_argument("model '", printable(name), "' is in several repositories: '",
                            found[0].string(), "' and '", found[1].string(), "'");
  }
  return ModelFolder{name, found.front()};
}

Result<std::vector<std::string>> list_model_names(const std::vector<std::string>& repositories) {
  std::set<std::string> names;
  for (const std::string& repository : repositories) {
    TUTTI_RETURN_IF_ERROR(check_repository(repository).with_context("model repository"));
    TUTTI_RETURN_IF_ERROR(for_each_folder(repository, [&](const fs::path& path) {
                            std::string name = path.filename().string();
                            // "..." is a legal model name although it begins like a hidden folder.
                            const bool is_hidden = name.front() == '.' &&
                                                   name.find_first_not_of('.') != std::string::npos;
                            if (!is_hidden) names.insert(std::move(name));
                          }).with_context("model repository"));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<ConfigFile> read_model_config(const ModelFolder& folder, const std::string& config_name) {
  std::error_code ignored;
  if (!config_name.empty()) {
    const fs::path custom = folder.path / "configs" / (config_name + ".pbtxt");
    if (fs::exists(custom, ignored)) return ConfigFile::read(custom.string());
  }
  const fs::path path = folder.path / "config.pbtxt";
  if (!fs::exists(path, ignored)) return ConfigFile::absent(path.string());
  return ConfigFile::read(path.string());
}

Result<std::vector<std::int64_t>> list_versions(const ModelFolder& folder, const Log& log) {
  std::vector<std::int64_t> versions;
  TUTTI_RETURN_IF_ERROR(for_each_folder(folder.path, [&](const fs::path& path) {
    const std::string name = path.filename().string();
    std::int64_t version = 0;
    if (is_version_folder(name, &version)) {
      versions.push_back(version);
    } else if (name.front() == '0') {
      log->warn("model '{}': folder '{}' is ignored: versions have no leading zero",
                printable(folder.name), printable(name));
    }
  }));
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

std::string folder_fingerprint(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const auto time = entry->last_write_time(ignored).time_since_epoch().count();
    const std::uintmax_t size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    // A folder's own time changes with its names, which are all here.
    const bool is_folder = entry->is_directory(ignored);
    files.push_back(str_cat(fs::path(entry->path()).lexically_relative(folder).string(), "|", size,
                            "|", is_folder ? 0 : time, "\n"));
  }
  if (error) return error.message();
  std::sort(files.begin(), files.end());
  Hasher hasher;
  for (const std::string& file : files) hasher.update(std::as_bytes(std::span(file)));
  return hasher.digest().to_hex();
}

Result<std::vector<std::int64_t>> choose_versions(const inference::ModelVersionPolicy& policy,
                                                  const std::vector<std::int64_t>& available) {
  if (available.empty()) {
    return invalid_argument("there is no version folder, expected at least one such as '1'");
  }
  if (policy.has_all()) return available;
  if (policy.has_specific()) {
    std::set<std::int64_t, std::greater<>> chosen;
    for (const std::int64_t version : policy.specific().versions()) {
      if (std::find(available.begin(), available.end(), version) == available.end()) {
        return invalid_argument("version_policy.specific: version ", version,
                                " is not there, available: ", available);
      }
      chosen.insert(version);
    }
    return std::vector<std::int64_t>(chosen.begin(), chosen.end());
  }
  // A policy without a number, and no policy at all, ask for one.
  const std::size_t count = std::max<std::size_t>(policy.latest().num_versions(), 1);
  return std::vector<std::int64_t>(available.begin(),
                                   available.begin() + std::min(count, available.size()));
}

}  // namespace tutti::server
