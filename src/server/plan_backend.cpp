#include "server/plan_backend.h"

#include <algorithm>
#include <utility>

namespace tutti::server {
namespace {

std::vector<TensorSpec> specs(const std::vector<PlanTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const PlanTensor& tensor : tensors) {
    TensorSpec spec{tensor.name, tensor.dtype, {}};
    for (const Dim& dim : tensor.shape)
      spec.dims.push_back(dim.is_constant() ? dim.constant() : -1);
    specs.push_back(std::move(spec));
  }
  return specs;
}

// The largest size that the first dimension of every input takes; 0 when nothing bounds it.
std::int64_t largest_batch(const Plan& plan) {
  std::int64_t largest = 0;
  for (const PlanTensor& input : plan.inputs) {
    if (input.shape.empty()) continue;
    const auto symbol = input.shape.front().as_symbol();
    const auto range = symbol ? plan.dims.find(*symbol) : plan.dims.end();
    if (range == plan.dims.end()) continue;
    largest = largest == 0 ? range->second.max : std::min(largest, range->second.max);
  }
  return largest;
}

void set_places(const InferRequest& request, const OutputSink& sink, RunOptions* options) {
  for (const InferInput& input : request.inputs) {
    if (is_on_device(input.place)) options->input_places[input.name] = input.place;
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const MemoryPlace place = sink.place(i);
    if (is_on_device(place)) options->output_places[request.outputs[i]] = place;
  }
}

class PlanSource final : public ModelSource {
 public:
  PlanSource(std::string path, Plan plan, const OpRegistry& registry, Backend& cpu, Backend* gpu,
             const InstanceOptions& options)
      : path_(std::move(path)),
        facts_(plan_facts(plan)),
        plan_(std::move(plan)),
        registry_(registry),
        cpu_(cpu),
        gpu_(gpu),
        options_(options) {}

  const ModelFacts& facts() const override { return facts_; }

  Result<std::unique_ptr<ServableModel>> create_instance(const Placement& placement) override {
    TUTTI_ASSIGN_OR_RETURN(Plan plan, take_plan());
    Backend& backend = gpu_ != nullptr && !placement.is_on_cpu ? *gpu_ : cpu_;
    TUTTI_ASSIGN_OR_RETURN(auto instance,
                           Instance::load(std::move(plan), backend, placement.devices, options_));
    return std::unique_ptr<ServableModel>(std::make_unique<PlanModel>(std::move(instance)));
  }

 private:
  // An instance owns its plan, so each after the first reads it again; the weights are one mapping
  // of the same file, and their digest was compared when the version was opened.
  Result<Plan> take_plan() {
    if (is_taken_) {
      PlanReadOptions again = options_.read;
      again.verify_data = false;
      return read_plan(path_, registry_, again);
    }
    is_taken_ = true;
    return std::move(plan_);
  }

  const std::string path_;
  const ModelFacts facts_;
  Plan plan_;
  bool is_taken_ = false;
  const OpRegistry& registry_;
  Backend& cpu_;
  Backend* gpu_;
  const InstanceOptions& options_;
};

}  // namespace

ModelFacts plan_facts(const Plan& plan) {
  ModelFacts facts;
  facts.signature = {specs(plan.inputs), specs(plan.outputs)};
  facts.ranks = plan.mesh.num_ranks();
  facts.mesh = plan.mesh.to_string();
  facts.largest_batch = largest_batch(plan);
  return facts;
}

DeviceFacts PlanBackend::devices() const {
  if (gpu_ == nullptr) return {cpu_.name(), 0};
  return {gpu_->name(), gpu_->device_count()};
}

Result<std::unique_ptr<ModelSource>> PlanBackend::open(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(Plan plan, read_plan(path, registry_, options_.read));
  return std::unique_ptr<ModelSource>(
      std::make_unique<PlanSource>(path, std::move(plan), registry_, cpu_, gpu_, options_));
}

InstanceStatistics PlanModel::statistics() const {
  InstanceStatistics statistics;
  for (const RankMemory& memory : instance_->memory().ranks) {
    RankStatistics rank;
    rank.memory_bytes =
        static_cast<std::int64_t>(memory.arena_bytes + memory.prologue_bytes + memory.weight_bytes);
    statistics.ranks.push_back(rank);
  }
  const std::vector<RankUse> use = instance_->group().use();
  for (std::size_t i = 0; i < use.size() && i < statistics.ranks.size(); ++i) {
    statistics.ranks[i].sent_bytes = use[i].sent_bytes;
    statistics.ranks[i].run = use[i].run;
    statistics.ranks[i].exchange = use[i].exchange;
  }
  statistics.rebuilds = instance_->group().rebuilds();
  return statistics;
}

Result<InferResult> PlanModel::infer(const InferRequest& request,
                                     const std::shared_ptr<OutputSink>& sink) {
  TensorMap inputs;
  for (const InferInput& input : request.inputs) {
    inputs.emplace(input.name,
                   Tensor::view(input.dtype, input.shape, input.data.data(), request.owner));
  }
  InferResult result;
  result.outputs.resize(request.outputs.size());
  RunOptions options;
  options.cancel = request.cancel;
  if (request.deadline) options.deadline = *request.deadline;
  if (request.has_device_tensors) set_places(request, *sink, &options);
  options.allocate_output = [&](std::size_t index, const TensorDesc& desc) -> Result<Tensor> {
    const std::string& name = instance_->plan().outputs[index].name;
    const auto wanted = std::find(request.outputs.begin(), request.outputs.end(), name);
    if (wanted == request.outputs.end()) return Tensor::allocate(desc.dtype, desc.dims);
    const auto position = static_cast<std::size_t>(wanted - request.outputs.begin());
    OutputDesc& output = result.outputs[position];
    output = {name, desc.dtype, desc.dims};
    TUTTI_ASSIGN_OR_RETURN(const std::byte* data,
                           sink->allocate(position, output, desc.byte_size()));
    return Tensor::view(desc.dtype, desc.dims, data, sink);
  };
  RunTimes times;
  options.times = &times;
  std::vector<RankRun> runs;
  if (request.rank_times != nullptr) options.rank_runs = &runs;
  const auto outputs = instance_->infer(inputs, options);
  if (request.rank_times != nullptr) {
    request.rank_times->clear();
    for (const RankRun& run : runs) {
      request.rank_times->push_back({run.started, run.finished, run.exchange});
    }
  }
  TUTTI_RETURN_IF_ERROR(outputs.status());
  result.inputs_ready = times.started;
  result.outputs_started = times.finished;
  if (concurrency() > 1) result.started = times.started;
  return result;
}

}  // namespace tutti::server
