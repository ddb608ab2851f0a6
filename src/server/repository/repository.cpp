#include "server/repository/repository.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/names.h"

namespace tutti::server {

ModelRepository::ModelRepository(RepositoryOptions options, std::shared_ptr<ModelLoader> loader,
                                 Log log)
    : options_(std::move(options)), loader_(std::move(loader)), log_(std::move(log)) {}

ModelRepository::~ModelRepository() { shutdown(std::nullopt); }

Status ModelRepository::start() {
  const std::lock_guard control(control_mutex_);
  const auto& wanted = options_.startup_models;
  const bool is_all = options_.control_mode == ControlMode::kNone ||
                      std::find(wanted.begin(), wanted.end(), "*") != wanted.end();
  // Listing checks the folders even when nothing is to be loaded yet.
  TUTTI_ASSIGN_OR_RETURN(const auto on_disk, list_model_names(options_.paths));
  const std::set<std::string> names =
      is_all ? std::set(on_disk.begin(), on_disk.end()) : std::set(wanted.begin(), wanted.end());
  std::string failures;
  for (const std::string& name : names) {
    const Status status = load_locked(name, {});
    if (!status.ok()) failures += str_cat(failures.empty() ? "" : "; ", status.message());
  }
  return failures.empty() ? Status() : internal_error(failures);
}

Status ModelRepository::check_control() const {
  if (options_.control_mode == ControlMode::kExplicit) return Status();
  return unavailable(
      "explicit model load / unload is not allowed: the server runs with "
      "--model-control-mode=none, expected explicit");
}

Status ModelRepository::load(const std::string& name, const LoadOverride& other) {
  TUTTI_RETURN_IF_ERROR(check_control());
  TUTTI_RETURN_IF_ERROR(check_model_name(name));
  const std::lock_guard control(control_mutex_);
  return load_locked(name, other);
}

Status ModelRepository::load_locked(const std::string& name, const LoadOverride& other) {
  {
    const std::shared_lock lock(mutex_);
    if (is_shut_down_) return unavailable("the server is stopping");
  }
  log_->info("loading model '{}'", printable(name));
  Result<LoadedModels> fresh = load_versions(name, other);
  if (!fresh.ok()) {
    const Status status = Status(StatusCode::kInternal, fresh.status().message())
                              .with_context(str_cat("failed to load '", printable(name), "'"));
    log_->error("{}", printable(status.message()));
    return status;
  }
  swap_in(name, *fresh);
  return Status();
}

Result<ModelRepository::LoadedModels> ModelRepository::load_versions(const std::string& name,
                                                                     const LoadOverride& other) {
  std::vector<std::int64_t> versions;
  std::unique_ptr<OverrideFolder> brought;  // weights stay mapped when it goes
  const auto prepare = [&]() -> Result<std::pair<ModelFolder, ConfigFile>> {
    TUTTI_RETURN_IF_ERROR(check_model_name(name));
    Result<ModelFolder> folder = ModelFolder{name, {}};
    if (other.files.empty()) {
      folder = find_model_folder(options_.paths, name);
    } else {
      TUTTI_ASSIGN_OR_RETURN(brought, OverrideFolder::create(other.files));
      folder->path = brought->path();
    }
    if (!folder.ok()) {
      return folder.status().with_context("failed to poll from model repository");
    }
    TUTTI_ASSIGN_OR_RETURN(ConfigFile config, other.config.empty() ? read_model_config(*folder)
                                                                   : override_config(other.config));
    TUTTI_ASSIGN_OR_RETURN(const auto available, list_versions(*folder, log_));
    TUTTI_ASSIGN_OR_RETURN(versions, choose_versions(config.config().version_policy(), available));
    return std::pair(*std::move(folder), std::move(config));
  };
  auto prepared = prepare();
  if (!prepared.ok()) {
    // Names that no folder has leave no trace: anyone may ask for any number of them.
    if (prepared.status().code() != StatusCode::kNotFound) note_failure(name, prepared.status());
    return prepared.status();
  }
  begin_load(name, versions);
  LoadedModels fresh;
  for (const std::int64_t version : versions) {
    auto model = loader_->load(prepared->first, prepared->second, version);
    if (!model.ok()) {
      const Status cause = model.status().with_context(str_cat("version ", version));
      fail_load(name, versions, cause);
      return cause;
    }
    fresh.push_back(*std::move(model));
  }
  return fresh;
}

void ModelRepository::begin_load(const std::string& name,
                                 const std::vector<std::int64_t>& versions) {
  const std::unique_lock lock(mutex_);
  failed_.erase(name);
  for (const std::int64_t version : versions) {
    advance(models_[name][version], ModelEvent::kLoad, "");
  }
}

void ModelRepository::note_failure(const std::string& name, const Status& cause) {
  if (!check_model_name(name).ok()) return;
  const std::unique_lock lock(mutex_);
  failed_[name] = cause.message();
}

void ModelRepository::fail_load(const std::string& name, const std::vector<std::int64_t>& versions,
                                const Status& cause) {
  const std::unique_lock lock(mutex_);
  for (const std::int64_t version : versions) {
    VersionEntry& entry = models_[name][version];
    const bool is_serving = entry.state == ModelState::kReady;
    advance(entry, ModelEvent::kFailed,
            str_cat(is_serving ? "serves as before a failed reload: " : "", cause.message()));
  }
}

void ModelRepository::swap_in(const std::string& name, const LoadedModels& fresh) {
  LoadedModels replaced;
  {
    const std::unique_lock lock(mutex_);
    Versions& versions = models_[name];
    std::set<std::int64_t> kept;
    for (const auto& model : fresh) {
      kept.insert(model->version());
      VersionEntry& entry = versions[model->version()];
      if (entry.model) replaced.push_back(std::move(entry.model));
      entry.model = model;
      advance(entry, ModelEvent::kLoaded, "");
      log_->info("model '{}' version {} is ready", printable(name), model->version());
    }
    // Versions that the folder or the policy no longer has.
    std::erase_if(versions, [&](const auto& item) {
      return !kept.contains(item.first) && item.second.state == ModelState::kUnavailable;
    });
    for (auto& [version, entry] : versions) {
      if (kept.contains(version) || entry.state != ModelState::kReady) continue;
      advance(entry, ModelEvent::kUnload, "");
      replaced.push_back(std::move(entry.model));
      advance(entry, ModelEvent::kUnloaded, kUnloaded);
    }
  }
  for (const auto& model : replaced) model->retire();
}

Status ModelRepository::unload(const std::string& name) {
  TUTTI_RETURN_IF_ERROR(check_control());
  TUTTI_RETURN_IF_ERROR(check_model_name(name));
  const std::lock_guard control(control_mutex_);
  LoadedModels retired;
  {
    const std::unique_lock lock(mutex_);
    const auto found = models_.find(name);
    if (failed_.erase(name) == 0 && found == models_.end()) {
      return not_found("failed to unload '", printable(name), "': no such model was ever loaded");
    }
    if (found == models_.end()) return Status();
    for (auto& [version, entry] : found->second) {
      // What failed to load counts as wanted until someone unloads it.
      if (entry.state == ModelState::kUnavailable) entry.reason = kUnloaded;
      if (entry.state != ModelState::kReady) continue;
      advance(entry, ModelEvent::kUnload, "");
      retired.push_back(std::move(entry.model));
    }
  }
  for (const auto& model : retired) {
    model->retire();
    log_->info("model '{}' version {} is unloaded", printable(name), model->version());
  }
  const std::unique_lock lock(mutex_);
  for (auto& [version, entry] : models_[name]) {
    if (entry.state == ModelState::kUnloading) advance(entry, ModelEvent::kUnloaded, kUnloaded);
  }
  return Status();
}

void ModelRepository::advance(VersionEntry& entry, ModelEvent event, std::string reason) {
  // The callers hold control_mutex_, so an event that does not fit is a bug here, not a race.
  if (const auto next = next_state(entry.state, event)) {
    entry.state = *next;
    entry.reason = std::move(reason);
  } else {
    log_->critical("model state {} has no event {}", model_state_name(entry.state),
                   static_cast<int>(event));
  }
}

void ModelRepository::shutdown(std::optional<TimePoint> deadline) {
  const std::lock_guard control(control_mutex_);
  LoadedModels retired;
  {
    const std::unique_lock lock(mutex_);
    is_shut_down_ = true;
    for (auto& [name, versions] : models_) {
      for (auto& [version, entry] : versions) {
        if (entry.state != ModelState::kReady) continue;
        advance(entry, ModelEvent::kUnload, "");
        retired.push_back(std::move(entry.model));
        advance(entry, ModelEvent::kUnloaded, "the server is stopping");
      }
    }
  }
  for (const auto& model : retired) model->retire(deadline);
}

}  // namespace tutti::server
