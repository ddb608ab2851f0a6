#include "server/backend_loader.h"

#include <filesystem>
#include <utility>

#include "server/config/check_config.h"
#include "server/config/devices.h"
#include "server/names.h"

namespace tutti::server {

// check_config_file() has seen that the names belong to one of them.
ModelBackend& BackendLoader::find_backend(const inference::ModelConfig& config) const {
  for (const auto& backend : backends_) {
    const BackendName name = backend->name();
    if (!config.backend().empty() && config.backend() != name.backend) continue;
    if (!config.platform().empty() && config.platform() != name.platform) continue;
    return *backend;
  }
  return *backends_.front();
}

Result<std::shared_ptr<LoadedModel>> BackendLoader::load(const ModelFolder& folder,
                                                         const ConfigFile& file,
                                                         std::int64_t version) {
  const TimePoint began = std::chrono::steady_clock::now();
  std::vector<BackendName> known;
  for (const auto& backend : backends_) known.push_back(backend->name());
  ModelBackend& backend = find_backend(file.config());
  std::vector<std::string> warnings;
  TUTTI_RETURN_IF_ERROR(check_config_file(file, folder.name, known, backend.devices(), &warnings));
  for (const std::string& warning : warnings) {
    log_->warn("model '{}': {}", printable(folder.name), printable(warning));
  }

  const std::string& named = file.config().default_model_filename();
  const std::string filename = named.empty() ? "model.plan" : named;
  const auto path = folder.path / std::to_string(version) / filename;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return not_found("file '", path.string(), "' is missing");
  }
  TUTTI_ASSIGN_OR_RETURN(const auto source, backend.open(path.string()));
  inference::ModelConfig config =
      complete_config(file, folder.name, backend.name(), source->facts(), backend.devices());
  TUTTI_RETURN_IF_ERROR(check_config_model(file, config, source->facts()));
  TUTTI_ASSIGN_OR_RETURN(const auto placements, assign_devices(file, config, source->facts()));

  std::vector<std::unique_ptr<ServableModel>> instances;
  for (const Placement& placement : placements) {
    TUTTI_ASSIGN_OR_RETURN(auto instance, source->create_instance(placement));
    instances.push_back(std::move(instance));
  }
  auto model = std::make_shared<LoadedModel>(folder.name, version, std::move(config),
                                             std::move(instances), queue_capacity_);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  model->set_load_seconds(took.count());
  return model;
}

}  // namespace tutti::server
