#include "server/service.h"

#include <utility>

#include "server/log_parameters.h"
#include "server/names.h"
#include "server/parameters.h"
#include "server/placement.h"
#include "server/submit.h"
#include "tutti/version.h"

namespace tutti::server {

InferenceService::InferenceService(std::shared_ptr<ModelRepository> repository,
                                   ServiceOptions options, Log log)
    : repository_(std::move(repository)),
      options_(options),
      log_(std::move(log)),
      shared_memory_(options.allows_client_shared_memory, options.gpu),
      traces_(options.trace, log_) {}

bool InferenceService::is_ready() const {
  if (is_stopping_) return false;
  return !options_.is_readiness_strict || repository_->is_all_ready();
}

Result<bool> InferenceService::is_model_ready(const std::string& name,
                                              std::string_view version) const {
  const auto model = repository_->find(name, version);
  if (!model.ok() && model.status().code() == StatusCode::kInvalidArgument) return model.status();
  return model.ok() && (*model)->is_ready() && !is_stopping_;
}

ServerMetadata InferenceService::server_metadata() const {
  ServerMetadata metadata{options_.name, TUTTI_VERSION, {}};
  metadata.extensions = {"classification",
                         "model_repository",
                         "model_repository(unload_dependents)",
                         "model_configuration",
                         "system_shared_memory",
                         "binary_tensor_data",
                         "parameters",
                         "statistics",
                         "trace",
                         "logging"};
  if (options_.gpu != nullptr) metadata.extensions.emplace_back("cuda_shared_memory");
  return metadata;
}

Result<ModelMetadata> InferenceService::model_metadata(const std::string& name,
                                                       std::string_view version) const {
  TUTTI_ASSIGN_OR_RETURN(const auto model, repository_->find(name, version));
  ModelMetadata metadata{name, {}, model->config().platform(), model->signature()};
  if (version.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const auto ready, repository_->find_all(name, ""));
    for (const auto& one : ready) metadata.versions.push_back(std::to_string(one->version()));
  } else {
    metadata.versions.push_back(std::to_string(model->version()));
  }
  return metadata;
}

Result<inference::ModelConfig> InferenceService::model_config(const std::string& name,
                                                              std::string_view version) const {
  TUTTI_ASSIGN_OR_RETURN(const auto model, repository_->find(name, version));
  return model->config();
}

Result<std::vector<ModelStatisticsEntry>> InferenceService::statistics(
    const std::string& name, std::string_view version) const {
  TUTTI_ASSIGN_OR_RETURN(const auto models, repository_->find_all(name, version));
  std::vector<ModelStatisticsEntry> entries;
  for (const auto& model : models) {
    entries.push_back({model->name(),
                       std::to_string(model->version()),
                       model->statistics().snapshot(),
                       model->pending(),
                       model->load_seconds(),
                       model->is_ready(),
                       model->uses_cache(),
                       model->instance_statistics(),
                       model->statistics().latencies(),
                       {}});
    const auto& tags = model->config().metric_tags();
    entries.back().tags.insert(tags.begin(), tags.end());
  }
  return entries;
}

Status InferenceService::check_repository(const std::string& repository) const {
  if (repository.empty()) return Status();
  return unimplemented("repository_name '", printable(repository),
                       "': choosing one repository is not supported, expected an empty name");
}

Result<std::vector<IndexEntry>> InferenceService::repository_index(const std::string& repository,
                                                                   bool only_ready) const {
  TUTTI_RETURN_IF_ERROR(check_repository(repository));
  return repository_->index(only_ready);
}

void InferenceService::load_model(const std::string& repository, const std::string& name,
                                  const ParameterMap& parameters, ControlDone done) {
  auto other = parse_load_parameters(parameters);
  if (!other.ok()) return done(other.status());
  if (const Status status = check_repository(repository); !status.ok()) return done(status);
  control_.post([this, name, other = *std::move(other), done = std::move(done)] {
    done(repository_->load(name, other));
  });
}

void InferenceService::unload_model(const std::string& repository, const std::string& name,
                                    const ParameterMap& parameters, ControlDone done) {
  if (const Status status = check_repository(repository); !status.ok()) return done(status);
  // Triton's word for the models that an ensemble depends on.
  const auto found = parameters.find("unload_dependents");
  const bool* const value = found == parameters.end() ? nullptr : std::get_if<bool>(&found->second);
  const bool with_steps = value != nullptr && *value;
  control_.post([this, name, with_steps, done = std::move(done)] {
    done(repository_->unload(name, with_steps));
  });
}

Result<ParameterMap> InferenceService::update_log(const ParameterMap& changes) {
  LogSettings settings = server::log_settings(log_);
  TUTTI_RETURN_IF_ERROR(apply_log_changes(changes, &settings));
  if (!changes.empty()) TUTTI_RETURN_IF_ERROR(change_log(log_, settings));
  return log_parameters(settings);
}

Result<TraceChanges> InferenceService::update_trace(const std::string& model,
                                                    const TraceChanges& changes) {
  if (!model.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const bool is_ready, is_model_ready(model, ""));
    if (!is_ready) {
      return invalid_argument("Request for unknown model : '", printable(model), "'");
    }
  }
  return traces_.update(model, changes);
}

void InferenceService::infer(InferRequest request, std::shared_ptr<OutputSink> sink,
                             InferDone done) {
  const TimePoint arrived = std::chrono::steady_clock::now();
  if (is_stopping_) return done(unavailable("the server is stopping"));
  if (const Status status = prepare(&request, &sink); !status.ok()) {
    note_refused(request.model_name, request.model_version, arrived);
    return done(status);
  }
  submit(*repository_, std::move(request), sink, arrived, std::move(done));
}

Status InferenceService::prepare(InferRequest* request, std::shared_ptr<OutputSink>* sink) {
  TUTTI_RETURN_IF_ERROR(apply_parameters(request));
  TUTTI_RETURN_IF_ERROR(place_inputs(shared_memory_, request));
  if (request->output_options.empty()) return Status();
  TUTTI_ASSIGN_OR_RETURN(auto placed,
                         PlacedOutputs::create(shared_memory_, request, std::move(*sink)));
  *sink = std::move(placed);
  return Status();
}

void InferenceService::note_refused(const std::string& name, std::string_view version,
                                    TimePoint arrived) {
  if (const auto model = repository_->find(name, version); model.ok()) {
    (*model)->record_failure(std::chrono::steady_clock::now() - arrived);
  }
}

void InferenceService::begin_shutdown() {
  is_stopping_ = true;
  stop_.request_stop();
}

}  // namespace tutti::server
