#include "server/backend_loader.h"

#include <filesystem>
#include <utility>

#include "server/config/check_config.h"
#include "server/config/devices.h"
#include "server/config/labels.h"
#include "server/ensemble/graph.h"
#include "server/ensemble/scheduler.h"
#include "server/names.h"
#include "server/warmup.h"

namespace tutti::server {
namespace {

// People who come with an ONNX model in the version folder are told the way.
Status missing_file(const std::filesystem::path& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), ignored)) {
    if (entry.path().extension() != ".onnx") continue;
    const auto model = path.parent_path().parent_path();
    return not_found("file '", path.string(), "' is missing; `tutti compile ",
                     entry.path().string(), " --output ", model.string(), " --version ",
                     path.parent_path().filename().string(), "` makes it");
  }
  return not_found("file '", path.string(), "' is missing");
}

ExecutionObserver recorder(const std::shared_ptr<ModelStatistics>& statistics) {
  return [statistics](std::int64_t rows, const RequestTimes& times) {
    statistics->record_execution(rows, times);
  };
}

}  // namespace

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
                                                         std::int64_t version,
                                                         const ModelFinder& finder) {
  const TimePoint began = std::chrono::steady_clock::now();
  TUTTI_RETURN_IF_ERROR(check_file(folder, file));
  if (file.config().has_ensemble_scheduling()) return load_ensemble(folder, file, version, finder);

  const std::string& named = file.config().default_model_filename();
  const std::string filename = named.empty() ? "model.plan" : named;
  const auto path = folder.path / std::to_string(version) / filename;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return missing_file(path);
  }
  ModelBackend& backend = find_backend(file.config());
  TUTTI_ASSIGN_OR_RETURN(const auto source, backend.open(path.string()));
  inference::ModelConfig config =
      complete_config(file, folder.name, backend.name(), source->facts(), backend.devices());
  TUTTI_RETURN_IF_ERROR(check_config_model(file, config, source->facts()));
  TUTTI_RETURN_IF_ERROR(check_warmup(file, config));
  TUTTI_ASSIGN_OR_RETURN(OutputLabels labels, read_labels(file, folder.path));
  TUTTI_ASSIGN_OR_RETURN(const auto placements, assign_devices(file, config, source->facts()));
  std::vector<ScheduledInstance> instances;
  for (const Placement& placement : placements) {
    TUTTI_ASSIGN_OR_RETURN(auto instance,
                           create_instance(config, placement, backend.devices().backend, *source));
    TUTTI_RETURN_IF_ERROR(run_warmup(folder, file, config, instance));
    instances.push_back(std::move(instance));
  }

  auto statistics = make_statistics(config);
  auto scheduler = std::make_unique<Scheduler>(
      std::move(instances), scheduling_options(config, queue_capacity_), recorder(statistics));
  const CacheSlot cache = cache_slot(config);
  auto model = std::make_shared<LoadedModel>(folder.name, version, std::move(config),
                                             std::move(statistics), std::move(scheduler), cache);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  model->set_load_seconds(took.count());
  model->set_labels(std::move(labels));
  return model;
}

Status BackendLoader::check_file(const ModelFolder& folder, const ConfigFile& file) const {
  std::vector<BackendName> known;
  for (const auto& backend : backends_) known.push_back(backend->name());
  std::vector<std::string> warnings;
  const DeviceFacts devices = find_backend(file.config()).devices();
  TUTTI_RETURN_IF_ERROR(check_config_file(file, folder.name, known, devices, &warnings));
  if (file.config().response_cache().enable() && cache_ == nullptr) {
    warnings.push_back("response_cache has no effect without --cache-config");
  }
  for (const std::string& warning : warnings) {
    log_->warn("model '{}': {}", printable(folder.name), printable(warning, kLongestMessage));
  }
  return Status();
}

Result<ScheduledInstance> BackendLoader::create_instance(const inference::ModelConfig& config,
                                                         const Placement& placement,
                                                         const std::string& gpu_kind,
                                                         ModelSource& source) {
  const inference::ModelRateLimiter& limits = config.instance_group(placement.group).rate_limiter();
  auto claims = instance_claims(limits, placement.devices, placement.is_on_cpu ? "cpu" : gpu_kind,
                                rate_limit_);
  std::unique_ptr<RateLimiter::Member> member;  // none for what shares nothing
  if (!claims.empty()) {
    TUTTI_ASSIGN_OR_RETURN(member, limiter_.join(std::move(claims), limits.priority()));
  }
  TUTTI_ASSIGN_OR_RETURN(auto model, source.create_instance(placement));
  return ScheduledInstance{std::move(model), std::move(member)};
}

// On the instance's devices as any other execution: others may be running there.
Status BackendLoader::run_warmup(const ModelFolder& folder, const ConfigFile& file,
                                 const inference::ModelConfig& config,
                                 const ScheduledInstance& instance) {
  if (config.model_warmup_size() == 0) return Status();
  SharedClaims claims(instance.claims.get());
  claims.acquire({});
  const ClaimHolder holder(claims);
  return warm_up(file, config, folder.path, *instance.model);
}

Result<std::shared_ptr<LoadedModel>> BackendLoader::load_ensemble(const ModelFolder& folder,
                                                                  const ConfigFile& file,
                                                                  std::int64_t version,
                                                                  const ModelFinder& finder) {
  TUTTI_ASSIGN_OR_RETURN(EnsembleGraph graph, make_ensemble_graph(file));
  inference::ModelConfig config = complete_ensemble_config(file, folder.name);
  TUTTI_RETURN_IF_ERROR(check_ensemble_models(file, config, graph, finder));
  TUTTI_ASSIGN_OR_RETURN(OutputLabels labels, read_labels(file, folder.path));
  auto statistics = make_statistics(config);
  auto scheduler =
      std::make_unique<EnsembleScheduler>(std::move(graph), finder, recorder(statistics));
  const CacheSlot cache = cache_slot(config);
  auto model = std::make_shared<LoadedModel>(folder.name, version, std::move(config),
                                             std::move(statistics), std::move(scheduler), cache);
  model->set_labels(std::move(labels));
  return model;
}

std::shared_ptr<ModelStatistics> BackendLoader::make_statistics(
    const inference::ModelConfig& config) const {
  if (!latencies_.has_summaries && !latencies_.has_histograms) {
    return std::make_shared<ModelStatistics>();
  }
  std::vector<double> buckets;
  for (const auto& control : config.model_metrics().metric_control()) {
    if (control.metric_identifier().family() != kFirstResponseHistogram) continue;
    buckets.assign(control.histogram_options().buckets().begin(),
                   control.histogram_options().buckets().end());
  }
  const bool uses_cache = cache_ != nullptr && config.response_cache().enable();
  return std::make_shared<ModelStatistics>(
      std::make_shared<LatencyMetrics>(latencies_, uses_cache, std::move(buckets)));
}

CacheSlot BackendLoader::cache_slot(const inference::ModelConfig& config) {
  if (!config.response_cache().enable()) return {};
  return {cache_, ++loads_};
}

}  // namespace tutti::server
