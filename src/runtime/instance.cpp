#include "runtime/instance.h"

#include <algorithm>

namespace tutti {
namespace {

std::string input_names(const Plan& plan) {
  std::string names;
  for (const PlanTensor& input : plan.inputs) {
    names += str_cat(names.empty() ? "'" : ", '", input.name, "'");
  }
  return names.empty() ? "none" : names;
}

// Sizes of all inputs, when they are the same for every request or the plan has a best one for each
// that is not.
std::optional<std::vector<TensorDesc>> expected_inputs(const Plan& plan) {
  SymbolMap sizes;
  for (const auto& [symbol, range] : plan.dims) sizes.emplace(symbol, range.opt);
  std::vector<TensorDesc> descs;
  for (const PlanTensor& input : plan.inputs) {
    Result<Dims> dims = evaluate(input.shape, sizes);
    if (!dims.ok()) return std::nullopt;
    descs.push_back({input.dtype, *std::move(dims)});
  }
  return descs;
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::load(const std::string& path,
                                                 const OpRegistry& registry, Backend& backend,
                                                 std::vector<int> devices,
                                                 InstanceOptions options) {
  TUTTI_ASSIGN_OR_RETURN(Plan plan, read_plan(path, registry, options.read));
  return load(std::move(plan), backend, std::move(devices), std::move(options));
}

Result<std::unique_ptr<Instance>> Instance::load(Plan plan, Backend& backend,
                                                 std::vector<int> devices,
                                                 InstanceOptions options) {
  return load(std::make_shared<const Plan>(std::move(plan)), backend, std::move(devices),
              std::move(options));
}

Result<std::unique_ptr<Instance>> Instance::load(std::shared_ptr<const Plan> plan, Backend& backend,
                                                 std::vector<int> devices,
                                                 InstanceOptions options) {
  TUTTI_RETURN_IF_ERROR(check_plan(*plan));
  options.group.devices = std::move(devices);
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankGroup> group,
                         RankGroup::create(plan, backend, options.group));
  if (options.prepares) {
    if (auto inputs = expected_inputs(*plan)) {
      TUTTI_RETURN_IF_ERROR(group->prepare(*std::move(inputs), {}));
    }
  }
  return std::unique_ptr<Instance>(new Instance(std::move(plan), std::move(group)));
}

Result<TensorMap> Instance::infer(const TensorMap& inputs, const RunOptions& options) {
  std::vector<Tensor> ordered;
  for (const PlanTensor& input : plan_->inputs) {
    const auto it = inputs.find(input.name);
    if (it == inputs.end() || !it->second.defined()) {
      return invalid_argument("input '", input.name, "' is missing");
    }
    ordered.push_back(it->second);
  }
  for (const auto& [name, tensor] : inputs) {
    const bool is_known =
        std::any_of(plan_->inputs.begin(), plan_->inputs.end(),
                    [&name = name](const PlanTensor& input) { return input.name == name; });
    if (!is_known) {
      return invalid_argument("input '", name, "' is unknown; the inputs are ",
                              input_names(*plan_));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> results, group_->run(ordered, options));
  TensorMap outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.emplace(plan_->outputs[i].name, std::move(results[i]));
  }
  return outputs;
}

}  // namespace tutti
