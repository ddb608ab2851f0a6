#include "server/repository/repository.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "server/names.h"

namespace tutti::server {

ModelRepository::ModelRepository(RepositoryOptions options, std::shared_ptr<ModelLoader> loader,
                                 Log log)
    : options_(std::move(options)), loader_(std::move(loader)), log_(std::move(log)) {}

ModelRepository::~ModelRepository() { shutdown(std::nullopt); }

Status ModelRepository::start() {
  const auto& wanted = options_.startup_models;
  const bool is_all = options_.control_mode != ControlMode::kExplicit ||
                      std::find(wanted.begin(), wanted.end(), "*") != wanted.end();
  // Listing checks the folders even when nothing is to be loaded yet.
  TUTTI_ASSIGN_OR_RETURN(const auto on_disk, list_model_names(options_.paths));
  const Names names =
      is_all ? Names(on_disk.begin(), on_disk.end()) : Names(wanted.begin(), wanted.end());
  std::string failures;
  for (const std::string& message : load_many(names)) {
    failures += str_cat(failures.empty() ? "" : "; ", message);
  }
  return failures.empty() ? Status() : internal_error(failures);
}

std::vector<std::string> ModelRepository::load_many(const Names& names) {
  const std::vector<std::string> list(names.begin(), names.end());
  std::vector<std::string> messages(list.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < list.size(); i = next++) {
      messages[i] = load_model(list[i], {}, {}).message();
    }
  };
  const auto count = static_cast<std::size_t>(std::max(options_.load_threads, 1));
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(count, list.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::erase(messages, "");
  return messages;
}

void ModelRepository::poll() {
  const std::lock_guard polling(poll_mutex_);
  const auto on_disk = list_model_names(options_.paths);
  if (!on_disk.ok()) {
    // Not one model's fault, and maybe over with the next look: nothing is unloaded for it.
    log_->error("{}", printable(on_disk.status().message(), kLongestMessage));
    return;
  }
  std::map<std::string, std::string> gone;  // until they are found
  {
    const std::shared_lock lock(mutex_);
    gone = fingerprints_;
  }
  Names changed;
  for (const std::string& name : *on_disk) {
    const auto known = gone.extract(name);
    if (!known || known.mapped() != fingerprint_of(name)) changed.insert(name);
  }
  load_many(changed);
  for (const auto& [name, fingerprint] : gone) unload_model(name);
}

std::string ModelRepository::fingerprint_of(const std::string& name) const {
  const auto folder = find_model_folder(options_.paths, name);
  return folder.ok() ? folder_fingerprint(folder->path) : folder.status().message();
}

Status ModelRepository::check_control() const {
  if (options_.control_mode == ControlMode::kExplicit) return Status();
  return unavailable(
      "explicit model load / unload is not allowed: the server runs with ",
      "--model-control-mode=", options_.control_mode == ControlMode::kPoll ? "poll" : "none",
      ", expected explicit");
}

Status ModelRepository::load(const std::string& name, const LoadOverride& other) {
  TUTTI_RETURN_IF_ERROR(check_control());
  TUTTI_RETURN_IF_ERROR(check_model_name(name));
  return load_model(name, {}, other);
}

Status ModelRepository::load_model(const std::string& name, const std::vector<std::string>& users,
                                   const LoadOverride& other) {
  const auto refuse = [&](const Status& cause) {
    const Status status = Status(StatusCode::kInternal, cause.message())
                              .with_context(str_cat("failed to load '", printable(name), "'"));
    log_->error("{}", printable(status.message(), kLongestMessage));
    return status;
  };
  if (std::find(users.begin(), users.end(), name) != users.end()) {
    return refuse(invalid_argument("ensemble_scheduling: the ensemble is a step of itself"));
  }
  const bool has_steps = !steps_of(name, other).empty();
  std::unique_lock ensembles(ensembles_mutex_, std::defer_lock);
  if (has_steps && users.empty()) ensembles.lock();
  const NameLocks::Guard guard(names_, name);
  {
    // Before anything is read, so that what changes meanwhile is seen by the next poll.
    std::string fingerprint = fingerprint_of(name);
    const std::unique_lock lock(mutex_);
    if (is_shut_down_) return unavailable("the server is stopping");
    // What another user of this step has just loaded.
    if (!users.empty() && is_loaded(name)) return Status();
    if (options_.control_mode == ControlMode::kPoll) fingerprints_[name] = std::move(fingerprint);
  }
  log_->info("loading model '{}'", printable(name));
  TUTTI_RETURN_IF_ERROR(load_steps(name, users, other));
  Result<LoadedModels> fresh = load_versions(name, other);
  if (!fresh.ok()) return refuse(fresh.status());
  swap_in(name, *fresh);
  return Status();
}

bool ModelRepository::is_loaded(const std::string& name) const {
  const auto found = models_.find(name);
  return found != models_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [](const auto& item) { return item.second.model != nullptr; });
}

ModelRepository::Names ModelRepository::steps_of(const std::string& name,
                                                 const LoadOverride& other) const {
  Names steps;
  const auto read = [&]() -> Result<ConfigFile> {
    if (!other.config.empty()) return override_config(other.config);
    TUTTI_ASSIGN_OR_RETURN(const ModelFolder folder, find_model_folder(options_.paths, name));
    return read_model_config(folder, options_.config_name);
  };
  const Result<ConfigFile> config = read();
  if (!config.ok()) return steps;
  for (const auto& step : config->config().ensemble_scheduling().step()) {
    steps.insert(step.model_name());
  }
  return steps;
}

// What an ensemble needs is loaded with it.
Status ModelRepository::load_steps(const std::string& name, const std::vector<std::string>& users,
                                   const LoadOverride& other) {
  std::vector<std::string> chain = users;
  chain.push_back(name);
  for (const std::string& step : steps_of(name, other)) {
    if (!check_model_name(step).ok()) continue;  // the ensemble's own check says so
    {
      const std::shared_lock lock(mutex_);
      if (is_loaded(step)) continue;
    }
    if (const Status status = load_model(step, chain, {}); !status.ok()) {
      note_failure(name, status);
      return status.with_context(str_cat("failed to load '", printable(name), "'"));
    }
  }
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
    TUTTI_ASSIGN_OR_RETURN(ConfigFile config, other.config.empty()
                                                  ? read_model_config(*folder, options_.config_name)
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
    auto model = loader_->load(prepared->first, prepared->second, version, *this);
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

Status ModelRepository::unload(const std::string& name, bool with_steps) {
  TUTTI_RETURN_IF_ERROR(check_control());
  TUTTI_RETURN_IF_ERROR(check_model_name(name));
  const Names steps = with_steps ? steps_of(name, {}) : Names();
  {
    const std::shared_lock lock(mutex_);
    if (!failed_.contains(name) && !models_.contains(name)) {
      return not_found("failed to unload '", printable(name), "': no such model was ever loaded");
    }
  }
  unload_model(name);
  for (const std::string& step : steps) unload_model(step);
  return Status();
}

void ModelRepository::unload_model(const std::string& name) {
  const NameLocks::Guard guard(names_, name);
  LoadedModels retired;
  {
    const std::unique_lock lock(mutex_);
    failed_.erase(name);
    fingerprints_.erase(name);
    const auto found = models_.find(name);
    if (found == models_.end()) return;
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
}

void ModelRepository::advance(VersionEntry& entry, ModelEvent event, std::string reason) {
  // The callers hold the model's name, so an event that does not fit is a bug here, not a race.
  if (const auto next = next_state(entry.state, event)) {
    entry.state = *next;
    entry.reason = std::move(reason);
  } else {
    log_->critical("model state {} has no event {}", model_state_name(entry.state),
                   static_cast<int>(event));
  }
}

void ModelRepository::shutdown(std::optional<TimePoint> deadline) {
  {
    const std::unique_lock lock(mutex_);
    is_shut_down_ = true;
  }
  names_.wait_for_all();
  LoadedModels retired;
  {
    const std::unique_lock lock(mutex_);
    for (auto& [name, versions] : models_) {
      for (auto& [version, entry] : versions) {
        if (entry.state != ModelState::kReady) continue;
        advance(entry, ModelEvent::kUnload, "");
        retired.push_back(std::move(entry.model));
        advance(entry, ModelEvent::kUnloaded, "the server is stopping");
      }
    }
  }
  // What an ensemble still has to do needs the models of its steps.
  std::stable_partition(retired.begin(), retired.end(), [](const auto& model) {
    return model->config().has_ensemble_scheduling();
  });
  for (const auto& model : retired) model->retire(deadline);
}

}  // namespace tutti::server
