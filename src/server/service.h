// All that the server can be asked, free of any protocol. Front ends translate and add nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/log.h"
#include "server/parameters.h"
#include "server/repository/repository.h"
#include "server/shared_memory/registry.h"
#include "server/statistics.h"
#include "server/task_thread.h"
#include "server/trace/manager.h"

namespace tutti::server {

struct ServiceOptions {
  std::string name = "tutti";       // of the server, in its metadata
  bool is_readiness_strict = true;  // ready only while every wanted model is
  bool allows_client_shared_memory = false;
  Backend* gpu = nullptr;  // with memory that clients may share; outlives the service
  TraceOptions trace;
};

struct ServerMetadata {
  std::string name;
  std::string version;
  std::vector<std::string> extensions;
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;  // ready ones, ascending
  std::string platform;
  ModelSignature signature;
};

struct ModelStatisticsEntry {
  std::string name;
  std::string version;
  StatisticsSnapshot statistics;
  std::size_t pending = 0;  // wait in the queue
  double load_seconds = 0;
  bool is_ready = false;
  bool uses_cache = false;  // response_cache, on a server that has one
  std::vector<InstanceStatistics> instances;
  std::shared_ptr<const LatencyMetrics> latencies;  // null where none are wanted
  std::map<std::string, std::string> tags;          // metric_tags of the configuration
};

// Thread safe. `version` is a request's text: "" or digits.
class InferenceService {
 public:
  InferenceService(std::shared_ptr<ModelRepository> repository, ServiceOptions options,
                   Log log = make_silent_log());

  bool is_live() const { return true; }  // an answer is the proof
  bool is_ready() const;
  // False for a model that is not there or not ready; errors are for names that cannot be.
  Result<bool> is_model_ready(const std::string& name, std::string_view version) const;

  ServerMetadata server_metadata() const;
  Result<ModelMetadata> model_metadata(const std::string& name, std::string_view version) const;
  Result<inference::ModelConfig> model_config(const std::string& name,
                                              std::string_view version) const;
  Result<std::vector<ModelStatisticsEntry>> statistics(const std::string& name,
                                                       std::string_view version) const;
  Result<std::vector<IndexEntry>> repository_index(const std::string& repository,
                                                   bool only_ready) const;

  // These take long: they run on a thread of the service, one after the other; `done` is called
  // there.
  using ControlDone = std::function<void(const Status&)>;
  void load_model(const std::string& repository, const std::string& name,
                  const ParameterMap& parameters, ControlDone done);
  void unload_model(const std::string& repository, const std::string& name,
                    const ParameterMap& parameters, ControlDone done);

  SharedMemoryRegistry& shared_memory() { return shared_memory_; }
  Backend* gpu() const { return options_.gpu; }  // null without

  // Changes the settings that are named, all or none, and gives all: log_file, log_info,
  // log_warning, log_error, log_verbose_level, log_format. INVALID_ARGUMENT names what is not known
  // or of the wrong kind.
  Result<ParameterMap> update_log(const ParameterMap& changes);

  TraceManager& traces() { return traces_; }
  const TraceManager& traces() const { return traces_; }
  // The settings of one model or, with "", of all; changed before by what `changes` names.
  // INVALID_ARGUMENT for a model that is not ready, else as TraceManager::update.
  Result<TraceChanges> update_trace(const std::string& model, const TraceChanges& changes);

  // Checks, queues and runs. `done` is called once, possibly before this returns.
  void infer(InferRequest request, std::shared_ptr<OutputSink> sink, InferDone done);

  // A front end refused a request that names this model before it could become one: a failure of
  // the model, if there is one.
  void note_refused(const std::string& name, std::string_view version, TimePoint arrived);

  // From now on the server is not ready and new inferences are answered UNAVAILABLE.
  void begin_shutdown();
  std::stop_token stopping() const { return stop_.get_token(); }  // requested by begin_shutdown()

 private:
  Status check_repository(const std::string& repository) const;
  // What has to be done to a request before a model sees it; may put a sink before `sink`.
  Status prepare(InferRequest* request, std::shared_ptr<OutputSink>* sink);

  const std::shared_ptr<ModelRepository> repository_;
  const ServiceOptions options_;
  const Log log_;
  SharedMemoryRegistry shared_memory_;
  TraceManager traces_;
  std::atomic<bool> is_stopping_{false};
  std::stop_source stop_;
  TaskThread control_;  // last: its tasks use the others
};

}  // namespace tutti::server
