#include "server/ensemble/scheduler.h"

#include <algorithm>
#include <utility>

#include "server/submit.h"
#include "server/trace/trace.h"

namespace tutti::server {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

// One request on its way through the graph.
class EnsembleScheduler::Run : public std::enable_shared_from_this<Run> {
 public:
  Run(EnsembleScheduler& scheduler, PendingPtr pending)
      : scheduler_(scheduler),
        pending_(std::move(pending)),
        is_needed_(graph().steps_for(pending_->request.outputs)),
        tensors_(graph().tensors.size()),
        missing_(graph().steps.size(), 0) {
    for (const InferInput& input : pending_->request.inputs) {
      Tensor& tensor = tensors_[index_of(input.name)];
      tensor.value = input;
      tensor.owner = pending_->request.owner;
    }
    for (std::size_t i = 0; i < graph().steps.size(); ++i) {
      std::set<std::size_t> made;  // a tensor may be two inputs of one step
      for (const auto& link : graph().steps[i].inputs) {
        if (graph().tensors[link.tensor].producer) made.insert(link.tensor);
      }
      missing_[i] = made.size();
      unfinished_ += is_needed_[i] ? 1 : 0;
    }
    outputs_.resize(pending_->request.outputs.size());
  }

  void start() {
    // The last step may end the run, and with it this, before request_stop() comes back.
    on_cancel_.emplace(pending_->request.cancel, [this] {
      const auto self = shared_from_this();
      cancel_.request_stop();
    });
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      if (is_needed_[i] && missing_[i] == 0) ready.push_back(i);
    }
    launch(ready);
  }

  void cancel() { cancel_.request_stop(); }

 private:
  struct Tensor {
    InferInput value;  // of the ensemble's name for it
    std::shared_ptr<const void> owner;
  };

  // Where a step writes: the request's sink for what it asks for, memory of the run for the rest.
  class Sink final : public OutputSink {
   public:
    Sink(std::shared_ptr<Run> run, std::size_t step) : run_(std::move(run)), step_(step) {}
    Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                                std::size_t bytes) override {
      return run_->allocate(tensor_of(position), output, bytes);
    }
    MemoryPlace place(std::size_t position) const override {
      return run_->place_of(tensor_of(position));
    }

   private:
    std::size_t tensor_of(std::size_t position) const {
      return run_->graph().steps[step_].outputs[position].tensor;
    }

    const std::shared_ptr<Run> run_;
    const std::size_t step_;
  };

  const EnsembleGraph& graph() const { return scheduler_.graph_; }
  std::size_t index_of(const std::string& name) const {
    return static_cast<std::size_t>(graph().find(name) - graph().tensors.data());
  }

  void launch(const std::vector<std::size_t>& steps) {
    for (const std::size_t step : steps) {
      {
        const std::lock_guard lock(mutex_);
        if (!error_.ok()) break;
        ++running_;
      }
      launch_one(step);
    }
    finish_if_over();
  }

  void launch_one(std::size_t index) {
    const EnsembleStep& step = graph().steps[index];
    InferRequest request;
    request.model_name = step.model_name;
    request.model_version = step.model_version;
    request.id = pending_->request.id;
    request.parameters = pending_->request.parameters;
    request.priority = pending_->request.priority;
    request.deadline = pending_->request.deadline;
    request.cancel = cancel_.get_token();
    if (pending_->request.trace) request.trace = pending_->request.trace->child();
    auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& link : step.inputs) {
        InferInput input = tensors_[link.tensor].value;
        input.name = link.model_tensor;
        request.has_device_tensors |= is_on_device(input.place);
        request.inputs.push_back(std::move(input));
        owners->push_back(tensors_[link.tensor].owner);
      }
    }
    request.owner = std::move(owners);
    for (const auto& link : step.outputs) {
      request.outputs.push_back(link.model_tensor);
      request.has_device_tensors |= is_on_device(place_of(link.tensor));
    }
    submit(scheduler_.finder_, std::move(request),
           std::make_shared<Sink>(shared_from_this(), index), now(),
           [self = shared_from_this(), index](Result<InferResponse> response) {
             self->finish_step(index, std::move(response));
           });
  }

  // Where the request wants a tensor; `wanted.end()` where it does not.
  std::vector<std::string>::const_iterator find_output(std::size_t index) const {
    const std::vector<std::string>& wanted = pending_->request.outputs;
    return std::find(wanted.begin(), wanted.end(), graph().tensors[index].name);
  }

  MemoryPlace place_of(std::size_t index) const {
    const std::vector<std::string>& wanted = pending_->request.outputs;
    const auto position = find_output(index);
    if (position == wanted.end()) return {};
    return pending_->sink->place(static_cast<std::size_t>(position - wanted.begin()));
  }

  Result<std::byte*> allocate(std::size_t index, const OutputDesc& output, std::size_t bytes) {
    const std::vector<std::string>& wanted = pending_->request.outputs;
    OutputDesc named = output;
    named.name = graph().tensors[index].name;
    const auto position = find_output(index);
    const std::lock_guard lock(mutex_);  // a sink is used by one thread at a time
    Tensor& tensor = tensors_[index];
    std::byte* data = nullptr;
    if (position != wanted.end()) {
      const auto at = static_cast<std::size_t>(position - wanted.begin());
      TUTTI_ASSIGN_OR_RETURN(data, pending_->sink->allocate(at, named, bytes));
      tensor.owner = pending_->sink;
      outputs_[at] = named;
    } else {
      std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
      data = memory.get();
      tensor.owner = std::move(memory);
    }
    tensor.value = {named.name,    named.dtype,  named.shape,
                    {data, bytes}, std::nullopt, place_of(index)};
    return data;
  }

  void finish_step(std::size_t index, Result<InferResponse> response) {
    std::vector<std::size_t> ready;
    {
      const std::lock_guard lock(mutex_);
      --running_;
      --unfinished_;
      if (!response.ok() && error_.ok()) {
        error_ =
            response.status().with_context(str_cat("step '", graph().steps[index].model_name, "'"));
      }
      if (response.ok()) ready = consume(index);
    }
    if (!response.ok()) cancel_.request_stop();  // nobody needs what the others make
    launch(ready);
  }

  // Those that waited for this step alone.
  std::vector<std::size_t> consume(std::size_t index) {
    std::vector<std::size_t> ready;
    for (const auto& link : graph().steps[index].outputs) {
      for (const std::size_t consumer : graph().tensors[link.tensor].consumers) {
        if (--missing_[consumer] == 0 && is_needed_[consumer]) ready.push_back(consumer);
      }
    }
    return ready;
  }

  void finish_if_over() {
    {
      const std::lock_guard lock(mutex_);
      if (is_over_ || running_ > 0 || (error_.ok() && unfinished_ > 0)) return;
      is_over_ = true;
    }
    RequestTimes& times = pending_->times;
    times.finished = now();
    times.outputs_started = times.finished;
    on_cancel_.reset();
    auto done = std::move(pending_->done);
    if (error_.ok()) {
      if (scheduler_.on_executed_) scheduler_.on_executed_(pending_->batch_size, times);
      done(*pending_, InferResult{outputs_, times.inputs_ready, times.outputs_started});
    } else {
      done(*pending_, error_);
    }
    scheduler_.note_end(shared_from_this());
  }

  EnsembleScheduler& scheduler_;
  const PendingPtr pending_;
  const std::vector<bool> is_needed_;
  std::stop_source cancel_;
  std::optional<std::stop_callback<std::function<void()>>> on_cancel_;
  std::mutex mutex_;
  // Under mutex_.
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> missing_;  // tensors that each step still waits for
  std::size_t running_ = 0;
  std::size_t unfinished_ = 0;
  bool is_over_ = false;
  Status error_;  // the first
  std::vector<OutputDesc> outputs_;
};

EnsembleScheduler::EnsembleScheduler(EnsembleGraph graph, const ModelFinder& finder,
                                     ExecutionObserver on_executed)
    : graph_(std::move(graph)), finder_(finder), on_executed_(std::move(on_executed)) {}

EnsembleScheduler::~EnsembleScheduler() { stop(); }

Status EnsembleScheduler::enqueue(const PendingPtr& request, bool* is_stopped) {
  if (is_stopped != nullptr) *is_stopped = false;
  RequestTimes& times = request->times;
  times.queued = times.started = times.inputs_ready = now();
  auto run = std::make_shared<Run>(*this, request);
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_) {
      if (is_stopped != nullptr) *is_stopped = true;
      return unavailable("the model is being unloaded");
    }
    runs_.insert(run);
  }
  run->start();
  return Status();
}

void EnsembleScheduler::note_end(const std::shared_ptr<Run>& run) {
  const std::lock_guard lock(mutex_);
  runs_.erase(run);
  if (runs_.empty()) ended_.notify_all();
}

void EnsembleScheduler::stop(std::optional<TimePoint> deadline) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  const auto is_over = [this] { return runs_.empty(); };
  if (deadline && !ended_.wait_until(lock, *deadline, is_over)) {
    const std::set<std::shared_ptr<Run>> left = runs_;
    lock.unlock();
    for (const auto& run : left) run->cancel();
    lock.lock();
  }
  ended_.wait(lock, is_over);
}

bool EnsembleScheduler::is_ready() const {
  return std::all_of(graph_.steps.begin(), graph_.steps.end(), [this](const EnsembleStep& step) {
    const auto model = finder_.find(step.model_name, step.model_version);
    return model.ok() && (*model)->is_ready();
  });
}

}  // namespace tutti::server
