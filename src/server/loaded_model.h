// One version of a model, ready to serve: configuration, door, instances, statistics.
#pragma once

#include <model_config.pb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/infer.h"
#include "server/scheduler/scheduler.h"
#include "server/servable_model.h"
#include "server/statistics.h"

namespace tutti::server {

class LoadedModel {
 public:
  // `config` is complete and valid (config/validate.h); it says what requests look like.
  LoadedModel(std::string name, std::int64_t version, inference::ModelConfig config,
              std::vector<std::unique_ptr<ServableModel>> instances, std::size_t queue_capacity);
  ~LoadedModel();  // as retire()
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const std::string& name() const { return name_; }
  std::int64_t version() const { return version_; }
  const inference::ModelConfig& config() const { return config_; }
  // As requests see the tensors: the batch dimension, where the model batches, is there as -1.
  const ModelSignature& signature() const { return signature_; }
  std::int64_t max_batch_size() const { return config_.max_batch_size(); }
  const ModelStatistics& statistics() const { return statistics_; }
  bool is_ready() const { return scheduler_.is_ready(); }
  std::size_t pending() const { return scheduler_.waiting(); }  // requests in the queue
  std::vector<InstanceStatistics> instance_statistics() const {
    return scheduler_.instance_statistics();
  }
  // How long it took to load, set by who loaded it.
  double load_seconds() const { return load_seconds_; }
  void set_load_seconds(double seconds) { load_seconds_ = seconds; }

  // Checks the request and queues it. False, with nothing changed and `done` not called, when the
  // model has been retired: the caller looks the model up again. Otherwise `done` is called once,
  // and whatever happens is in the statistics before.
  bool infer(InferRequest& request, const std::shared_ptr<OutputSink>& sink, TimePoint arrived,
             InferDone& done);

  // Counts a request that was refused before it reached infer().
  void record_failure(std::chrono::nanoseconds duration) { statistics_.record_failure(duration); }

  // Takes no more requests and answers those that it has; see Scheduler::stop.
  void retire(std::optional<TimePoint> deadline = std::nullopt);

 private:
  std::string name_;
  std::int64_t version_;
  inference::ModelConfig config_;
  ModelSignature signature_;
  ModelStatistics statistics_;
  double load_seconds_ = 0;
  Scheduler scheduler_;
};

}  // namespace tutti::server
