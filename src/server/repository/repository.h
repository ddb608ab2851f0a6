// The models of a server: which there are, which are loaded, and in what state each version is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/loaded_model.h"
#include "server/log.h"
#include "server/repository/load_override.h"
#include "server/repository/model_loader.h"
#include "server/repository/model_state.h"
#include "server/repository/name_locks.h"

namespace tutti::server {

// kNone: everything is loaded at the start and nothing changes. kPoll: so too, and poll() follows
// what changes on disk. kExplicit: load and unload on request.
enum class ControlMode { kNone, kPoll, kExplicit };

struct RepositoryOptions {
  std::vector<std::string> paths;
  ControlMode control_mode = ControlMode::kNone;
  std::vector<std::string> startup_models;  // kExplicit only; "*" for all
  int load_threads = 4;                     // models that are loaded at the same time
  std::string config_name;                  // configs/NAME.pbtxt goes before config.pbtxt
};

struct IndexEntry {
  std::string name;
  std::string version;  // "" for a model that was never loaded
  std::string state;    // "" likewise
  std::string reason;
};

// Thread safe. Loads and unloads of one model run one at a time; requests never wait for them.
// Lock order: poll_mutex_, ensembles_mutex_, a model's name (an ensemble's before those of its
// steps), mutex_.
class ModelRepository final : public ModelFinder {
 public:
  ModelRepository(RepositoryOptions options, std::shared_ptr<ModelLoader> loader, Log log);
  ~ModelRepository() override;  // as shutdown()

  // Loads what the control mode asks for. An error names each model that failed; the others serve.
  Status start();

  // kPoll: loads models that are new or have changed on disk since they were last looked at, and
  // unloads those that are gone. A load that fails is tried again when the folder changes.
  void poll();

  // (Re)loads a model from its folder: new versions are made first, then swapped in, then those
  // they replace are drained. When any version fails, all that were serving go on. UNAVAILABLE when
  // the control mode forbids it, INTERNAL "failed to load ..." with the cause.
  // Parts of `other` stand for those of the folder, which need not be there for files.
  Status load(const std::string& name, const LoadOverride& other = {});
  // Drains and drops all versions; with `with_steps` also those of the models that an ensemble has
  // as its steps. NOT_FOUND for a model that was never loaded.
  Status unload(const std::string& name, bool with_steps = false);

  // version "": the newest that is ready. Errors are Triton's: NOT_FOUND "Request for unknown
  // model: 'x' is not found", UNAVAILABLE "... has no available versions".
  Result<std::shared_ptr<LoadedModel>> find(const std::string& name,
                                            std::string_view version) const override;
  // Ready versions: of one model and version, of one model ("" version), of all ("" name).
  Result<std::vector<std::shared_ptr<LoadedModel>>> find_all(const std::string& name,
                                                             std::string_view version) const;
  // All versions that were ever asked for are ready (unloaded ones do not count).
  bool is_all_ready() const;
  // Models on disk and in memory, by name and version.
  Result<std::vector<IndexEntry>> index(bool only_ready) const;

  // Answers what is queued (see Scheduler::stop) and drops all models. Later calls find none.
  void shutdown(std::optional<TimePoint> deadline);

 private:
  struct VersionEntry {
    ModelState state = ModelState::kUnavailable;
    std::string reason;
    std::shared_ptr<LoadedModel> model;  // while ready
  };
  static constexpr const char* kUnloaded = "unloaded";  // the reason of a version nobody wants
  using Versions = std::map<std::int64_t, VersionEntry>;
  using LoadedModels = std::vector<std::shared_ptr<LoadedModel>>;

  using Names = std::set<std::string>;

  Status check_control() const;
  // Loads all, several at a time; the messages of those that fail.
  std::vector<std::string> load_many(const Names& names);
  // `users`: the ensembles that wait for this model, outermost first.
  Status load_model(const std::string& name, const std::vector<std::string>& users,
                    const LoadOverride& other);
  Status load_steps(const std::string& name, const std::vector<std::string>& users,
                    const LoadOverride& other);
  Names steps_of(const std::string& name, const LoadOverride& other) const;
  bool is_loaded(const std::string& name) const;  // under mutex_
  std::string fingerprint_of(const std::string& name) const;
  void unload_model(const std::string& name);
  // Everything that can fail, before anything changes.
  Result<LoadedModels> load_versions(const std::string& name, const LoadOverride& other);
  void begin_load(const std::string& name, const std::vector<std::int64_t>& versions);
  void note_failure(const std::string& name, const Status& cause);
  void fail_load(const std::string& name, const std::vector<std::int64_t>& versions,
                 const Status& cause);
  void swap_in(const std::string& name, const LoadedModels& fresh);
  void advance(VersionEntry& entry, ModelEvent event, std::string reason);

  const RepositoryOptions options_;
  const std::shared_ptr<ModelLoader> loader_;
  const Log log_;
  NameLocks names_;  // held by whoever loads or unloads that model
  std::mutex poll_mutex_;
  // Ensembles are loaded one at a time: two that name each other would wait for each other.
  std::mutex ensembles_mutex_;
  std::map<std::string, std::string> fingerprints_;  // under mutex_; of what was last loaded
  mutable std::shared_mutex mutex_;
  std::map<std::string, Versions> models_;     // under mutex_
  std::map<std::string, std::string> failed_;  // under mutex_: loads that found no version, why
  bool is_shut_down_ = false;                  // under mutex_
};

}  // namespace tutti::server
