// One version of a model, ready to serve: configuration, door, instances, statistics.
#pragma once

#include <model_config.pb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/cache/response_cache.h"
#include "server/config/labels.h"
#include "server/infer.h"
#include "server/scheduler/request_scheduler.h"
#include "server/scheduler/scheduling_options.h"
#include "server/statistics.h"

namespace tutti::server {

class RecordingSink;

// The cache that a model shares with others, and the number that tells it apart there.
struct CacheSlot {
  std::shared_ptr<ResponseCache> cache;  // null: every request runs
  std::uint64_t model = 0;
};

class LoadedModel {
 public:
  // `config` is complete and valid (config/validate.h); it says what requests look like.
  // The scheduler's executions are counted in `statistics` by whoever made it.
  LoadedModel(std::string name, std::int64_t version, inference::ModelConfig config,
              std::shared_ptr<ModelStatistics> statistics,
              std::unique_ptr<RequestScheduler> scheduler, CacheSlot cache = {});
  ~LoadedModel();  // as retire()
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const std::string& name() const { return name_; }
  std::int64_t version() const { return version_; }
  const inference::ModelConfig& config() const { return config_; }
  // As requests see the tensors: the batch dimension, where the model batches, is there as -1.
  const ModelSignature& signature() const { return signature_; }
  std::int64_t max_batch_size() const { return config_.max_batch_size(); }
  const ModelStatistics& statistics() const { return *statistics_; }
  bool uses_cache() const { return cache_.cache != nullptr; }
  bool is_ready() const { return scheduler_->is_ready(); }
  std::size_t pending() const { return scheduler_->waiting(); }  // requests in the queue
  std::vector<InstanceStatistics> instance_statistics() const {
    return scheduler_->instance_statistics();
  }
  // How long it took to load, set by who loaded it.
  double load_seconds() const { return load_seconds_; }
  void set_load_seconds(double seconds) { load_seconds_ = seconds; }
  // Before the first request.
  void set_labels(OutputLabels labels) { labels_ = std::move(labels); }

  // Checks the request and queues it. False, with nothing changed and `done` not called, when the
  // model has been retired: the caller looks the model up again. Otherwise `done` is called once,
  // and whatever happens is in the statistics before.
  bool infer(InferRequest& request, const std::shared_ptr<OutputSink>& sink, TimePoint arrived,
             InferDone& done);

  // Counts a request that was refused before it reached infer().
  void record_failure(std::chrono::nanoseconds duration) { statistics_->record_failure(duration); }

  // Takes no more requests and answers those that it has; see RequestScheduler::stop.
  void retire(std::optional<TimePoint> deadline = std::nullopt);

 private:
  // A request that the cache had no answer for.
  struct CacheMiss {
    Hash128 key;
    std::chrono::nanoseconds lookup;
  };
  void begin_trace(InferRequest& request) const;
  // The last step of every answer.
  Status complete(OutputSink& sink, std::vector<OutputDesc>* outputs) const;
  Result<InferResponse> answer_from(const CachedResponse& cached, const InferRequest& request,
                                    OutputSink& sink) const;
  void keep(const CacheMiss& miss, const RecordingSink& written, const InferResult& result);

  std::string name_;
  std::int64_t version_;
  inference::ModelConfig config_;
  ModelSignature signature_;
  const SchedulingOptions scheduling_;  // what the configuration says of queues and batches
  const std::shared_ptr<ModelStatistics> statistics_;
  double load_seconds_ = 0;
  OutputLabels labels_;
  const CacheSlot cache_;
  const std::unique_ptr<RequestScheduler> scheduler_;
};

}  // namespace tutti::server
