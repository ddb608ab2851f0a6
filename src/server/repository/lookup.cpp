// The reading side of ModelRepository.
#include <set>

#include "server/names.h"
#include "server/repository/repository.h"

namespace tutti::server {

Result<std::shared_ptr<LoadedModel>> ModelRepository::find(const std::string& name,
                                                           std::string_view version) const {
  TUTTI_RETURN_IF_ERROR(check_model_name(name));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t wanted, parse_request_version(version));
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    if (const auto failed = failed_.find(name); failed != failed_.end()) {
      return unavailable("Request for unknown model: '", printable(name),
                         "' has no available versions: ", failed->second);
    }
    return not_found("Request for unknown model: '", printable(name), "' is not found");
  }
  const Versions& versions = found->second;
  if (wanted != 0) {
    const auto entry = versions.find(wanted);
    if (entry == versions.end()) {
      return not_found("Request for unknown model: '", printable(name), "' version ", wanted,
                       " is not found");
    }
    if (entry->second.model) return entry->second.model;
    const std::string& reason = entry->second.reason;
    return unavailable("Request for unknown model: '", printable(name), "' version ", wanted,
                       " is not at ready state", reason.empty() ? "" : ": ", reason);
  }
  for (auto entry = versions.rbegin(); entry != versions.rend(); ++entry) {
    if (entry->second.model) return entry->second.model;
  }
  return unavailable("Request for unknown model: '", printable(name),
                     "' has no available versions");
}

Result<std::vector<std::shared_ptr<LoadedModel>>> ModelRepository::find_all(
    const std::string& name, std::string_view version) const {
  LoadedModels ready;
  if (!name.empty()) {
    TUTTI_ASSIGN_OR_RETURN(auto model, find(name, version));
    if (!version.empty()) return LoadedModels{std::move(model)};
  } else if (!version.empty()) {
    return invalid_argument("model version '", printable(version), "' needs a model name");
  }
  const std::shared_lock lock(mutex_);
  for (const auto& [model_name, versions] : models_) {
    if (!name.empty() && model_name != name) continue;
    for (const auto& [number, entry] : versions) {
      if (entry.model) ready.push_back(entry.model);
    }
  }
  return ready;
}

bool ModelRepository::is_all_ready() const {
  const std::shared_lock lock(mutex_);
  if (is_shut_down_ || !failed_.empty()) return false;
  for (const auto& [name, versions] : models_) {
    for (const auto& [version, entry] : versions) {
      if (entry.model ? !entry.model->is_ready() : entry.reason != kUnloaded) return false;
    }
  }
  return true;
}

Result<std::vector<IndexEntry>> ModelRepository::index(bool only_ready) const {
  std::set<std::string> names;
  if (!only_ready) {
    TUTTI_ASSIGN_OR_RETURN(const auto on_disk, list_model_names(options_.paths));
    names.insert(on_disk.begin(), on_disk.end());
  }
  std::vector<IndexEntry> entries;
  const std::shared_lock lock(mutex_);
  for (const auto& [name, versions] : models_) names.insert(name);
  for (const auto& [name, reason] : failed_) names.insert(name);
  for (const std::string& name : names) {
    const auto failed = failed_.find(name);
    if (failed != failed_.end() && !only_ready) {
      entries.push_back({name, "", "UNAVAILABLE", failed->second});
    }
    const auto found = models_.find(name);
    if (found == models_.end()) {
      if (failed == failed_.end() && !only_ready) entries.push_back({name, "", "", ""});
      continue;
    }
    for (const auto& [version, entry] : found->second) {
      if (only_ready && entry.state != ModelState::kReady) continue;
      entries.push_back({name, std::to_string(version), std::string(model_state_name(entry.state)),
                         entry.reason});
    }
  }
  return entries;
}

}  // namespace tutti::server
