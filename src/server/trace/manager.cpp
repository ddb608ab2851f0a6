#include "server/trace/manager.h"

#include <utility>
#include <vector>

#include "server/trace/batch_queue.h"
#include "server/trace/exporter.h"
#include "server/trace/file.h"
#include "server/trace/json.h"

namespace tutti::server {

// Writes trace files on a thread of its own.
class TraceManager::FileWriter {
 public:
  explicit FileWriter(Log log)
      : log_(std::move(log)),
        queue_({8192, 64, std::chrono::milliseconds(100)},
               [](std::vector<Item> batch) { write(std::move(batch)); }) {}

  // One path is one file, whoever collects for it.
  std::shared_ptr<TraceCollection> collect(const TraceSettings& settings) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<TraceFile>& file = files_[settings.file];
    if (!file) file = std::make_shared<TraceFile>(settings.file, log_);
    return std::make_shared<TraceCollection>(file, settings.log_frequency, settings.count);
  }
  void put(std::shared_ptr<TraceCollection> collection, TraceRecord record) {
    if (queue_.put({std::move(collection), std::move(record)})) ++put_;
  }
  // The collection has all that it will get: it ends behind what was put before, and on the queue's
  // thread, however full the queue is: files are that thread's.
  void end(std::shared_ptr<TraceCollection> collection) {
    queue_.put({std::move(collection), std::nullopt}, 0);
  }
  TraceCounts counts() const { return {put_, queue_.dropped()}; }

 private:
  struct Item {
    std::shared_ptr<TraceCollection> collection;
    std::optional<TraceRecord> record;
  };
  static void write(std::vector<Item> batch) {
    for (const Item& item : batch) {
      if (item.record) item.collection->add(trace_json(*item.record));
    }
  }

  const Log log_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<TraceFile>> files_;  // under mutex_
  std::atomic<std::uint64_t> put_{0};
  BatchQueue<Item> queue_;  // last: its thread uses the others
};

// One setting at work. Traces that it began belong to it, also after it was replaced.
class TraceManager::Sampler : public std::enable_shared_from_this<TraceManager::Sampler> {
 public:
  Sampler(TraceSettings settings, std::shared_ptr<OtlpExporter> exporter,
          std::shared_ptr<FileWriter> files)
      : settings_(std::move(settings)),
        left_(settings_.count),
        exporter_(std::move(exporter)),
        files_(std::move(files)) {
    if (files_ && !settings_.file.empty()) collection_ = files_->collect(settings_);
  }
  ~Sampler() {
    if (collection_) files_->end(std::move(collection_));
  }

  // Something could come of it.
  bool is_on() const {
    if (exporter_) return settings_.timestamps;  // callers may ask for it, whatever the rate
    return (settings_.timestamps || settings_.tensors) && settings_.rate > 0 &&
           settings_.count != 0 && collection_ != nullptr;
  }

  bool takes(const std::optional<TraceContext>& parent) {
    if (!is_on()) return false;
    if (exporter_ && parent) return parent->is_sampled;
    const std::lock_guard lock(mutex_);
    if (settings_.rate == 0 || left_ == 0 || ++seen_ % settings_.rate != 0) return false;
    if (left_ > 0) --left_;
    return true;
  }

  std::shared_ptr<RequestTrace> begin(TraceRecord record) {
    record.has_timestamps = settings_.timestamps;
    return std::make_shared<RequestTrace>(
        std::move(record), settings_.tensors && collection_ != nullptr,
        [self = shared_from_this()](TraceRecord done) { self->deliver(std::move(done)); });
  }

  // As they were set, but for the traces that are still to come.
  TraceSettings settings() const {
    TraceSettings now = settings_;
    const std::lock_guard lock(mutex_);
    now.count = left_;
    return now;
  }

 private:
  void deliver(TraceRecord record) {
    if (exporter_) return exporter_->put(std::move(record));
    files_->put(collection_, std::move(record));
  }

  const TraceSettings settings_;
  mutable std::mutex mutex_;
  std::uint64_t seen_ = 0;  // under mutex_
  std::int32_t left_;       // under mutex_
  const std::shared_ptr<OtlpExporter> exporter_;
  const std::shared_ptr<FileWriter> files_;
  std::shared_ptr<TraceCollection> collection_;
};

TraceManager::TraceManager(TraceOptions options, Log log)
    : options_(std::move(options)), defaults_(options_.settings) {
  if (options_.mode == TraceMode::kTriton) {
    files_ = std::make_shared<FileWriter>(std::move(log));
  } else {
    exporter_ = std::make_shared<OtlpExporter>(options_.otlp, std::move(log));
  }
  global_.sampler = std::make_shared<Sampler>(defaults_, exporter_, files_);
  is_on_ = global_.sampler->is_on();
}

TraceManager::~TraceManager() = default;

std::shared_ptr<RequestTrace> TraceManager::sample(const std::string& model, const char* protocol,
                                                   std::optional<TraceContext> parent,
                                                   TimePoint started) {
  std::shared_ptr<Sampler> sampler;
  {
    const std::lock_guard lock(mutex_);
    sampler = find_locked(model);
  }
  if (!sampler->takes(parent)) return nullptr;
  TraceRecord record;
  record.id = next_trace_id();
  record.parent = std::move(parent);
  record.protocol = protocol;
  record.model_name = model;
  record.started = started;
  return sampler->begin(std::move(record));
}

std::shared_ptr<TraceManager::Sampler> TraceManager::find_locked(const std::string& model) const {
  const auto found = models_.find(model);
  return found == models_.end() ? global_.sampler : found->second.sampler;
}

Result<std::shared_ptr<TraceManager::Sampler>> TraceManager::make_sampler(
    const TraceSettings& below, const TraceChanges& asked) const {
  TraceSettings settings = below;
  TUTTI_RETURN_IF_ERROR(apply_trace_changes(asked, &settings));
  if (files_ && settings.file.empty() && (settings.timestamps || settings.tensors)) {
    return invalid_argument("trace setting 'trace_level' needs a trace file, which --trace-config ",
                            "triton,file=PATH gives at the start");
  }
  return std::make_shared<Sampler>(std::move(settings), exporter_, files_);
}

// A count says how many are still to come: what has been traced is off it.
void TraceManager::keep_count(Scope* scope) {
  if (!scope->sampler) return;
  const auto count = scope->asked.find("trace_count");
  if (count == scope->asked.end()) return;
  count->second = {std::to_string(scope->sampler->settings().count)};
}

Result<TraceChanges> TraceManager::update(const std::string& model, const TraceChanges& changes) {
  const std::lock_guard lock(mutex_);
  if (!changes.empty()) {
    const auto found = models_.find(model);
    Scope next = model.empty() ? global_ : found == models_.end() ? Scope() : found->second;
    if (model.empty() && !global_.asked.contains("trace_count")) {
      defaults_.count = global_.sampler->settings().count;
    }
    keep_count(&next);
    // Checked before anything changes.
    TraceSettings unused;
    TUTTI_RETURN_IF_ERROR(apply_trace_changes(changes, &unused));
    for (const auto& [name, values] : changes) {
      if (values.empty()) {
        next.asked.erase(name);
      } else {
        next.asked[name] = values;
      }
    }
    const TraceSettings below = model.empty() ? defaults_ : global_.sampler->settings();
    TUTTI_ASSIGN_OR_RETURN(next.sampler, make_sampler(below, next.asked));
    if (model.empty()) {
      global_ = std::move(next);
      TUTTI_RETURN_IF_ERROR(refresh_models_locked());
    } else if (next.asked.empty()) {
      models_.erase(model);
    } else {
      models_[model] = std::move(next);
    }
    note_whether_on_locked();
  }
  return trace_values(options_.mode, find_locked(model)->settings(), options_.otlp);
}

// What models leave open follows the global settings.
Status TraceManager::refresh_models_locked() {
  for (auto& [name, scope] : models_) {
    keep_count(&scope);
    TUTTI_ASSIGN_OR_RETURN(scope.sampler, make_sampler(global_.sampler->settings(), scope.asked));
  }
  return Status();
}

void TraceManager::note_whether_on_locked() {
  bool is_on = global_.sampler->is_on();
  for (const auto& [name, scope] : models_) is_on = is_on || scope.sampler->is_on();
  is_on_ = is_on;
}

TraceCounts TraceManager::counts() const {
  if (exporter_) return {exporter_->exported(), exporter_->dropped()};
  return files_->counts();
}

}  // namespace tutti::server
