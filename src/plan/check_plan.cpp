#include <algorithm>
#include <set>

#include "plan/plan.h"

namespace tutti {
namespace {

const PlanTensor* find_tensor(const std::vector<PlanTensor>& tensors, std::string_view name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const PlanTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

TensorType type_of(const PlanTensor& tensor) { return {tensor.dtype, tensor.shape}; }

Status check_input(const Value& input, const TensorType& expected) {
  if (input.type() == expected) return Status();
  return invalid_argument("input '", input.name(), "' is ", input.type(), " in the graph, ",
                          expected, " in the plan");
}

Status check_distinct(const std::vector<PlanTensor>& tensors, std::string_view kind) {
  std::set<std::string_view> names;
  for (const PlanTensor& tensor : tensors) {
    if (tensor.name.empty()) return invalid_argument("an ", kind, " has no name");
    if (!names.insert(tensor.name).second) {
      return invalid_argument("two ", kind, "s have the name '", tensor.name, "'");
    }
  }
  return Status();
}

Status check_prologue(const Plan& plan) {
  for (const Value* input : plan.prologue->inputs()) {
    const PlanTensor* tensor = find_tensor(plan.inputs, input->name());
    if (tensor == nullptr) {
      return invalid_argument("input '", input->name(),
                              "' of the prologue is no input of the plan");
    }
    TUTTI_RETURN_IF_ERROR(check_input(*input, type_of(*tensor)).with_context("prologue"));
  }
  const std::set<std::string> names(plan.prologue->output_names.begin(),
                                    plan.prologue->output_names.end());
  if (names.size() != plan.prologue->outputs().size() || names.contains("")) {
    return invalid_argument("the prologue's outputs need distinct names");
  }
  for (const std::string& name : names) {
    if (find_tensor(plan.inputs, name) != nullptr) {
      return invalid_argument("'", name, "' is an input of the plan and made by the prologue");
    }
  }
  return plan.prologue->verify();
}

// The type of the prologue's output of this name.
const TensorType* prologue_type(const Plan& plan, const std::string& name) {
  if (plan.prologue == nullptr) return nullptr;
  const auto& names = plan.prologue->output_names;
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return nullptr;
  return &plan.prologue->outputs()[static_cast<std::size_t>(it - names.begin())]->type();
}

}  // namespace

Status check_plan(const Plan& plan) {
  if (plan.main == nullptr) return invalid_argument("the plan has no main graph");
  TUTTI_RETURN_IF_ERROR(check_distinct(plan.inputs, "input"));
  TUTTI_RETURN_IF_ERROR(check_distinct(plan.outputs, "output"));
  if (plan.prologue != nullptr) TUTTI_RETURN_IF_ERROR(check_prologue(plan));
  for (const Value* input : plan.main->inputs()) {
    const PlanTensor* tensor = find_tensor(plan.inputs, input->name());
    const TensorType* hoisted = prologue_type(plan, input->name());
    if (tensor == nullptr && hoisted == nullptr) {
      return invalid_argument("input '", input->name(),
                              "' of the main graph is neither an input of the plan nor made by the "
                              "prologue");
    }
    TUTTI_RETURN_IF_ERROR(check_input(*input, hoisted != nullptr ? *hoisted : type_of(*tensor)));
  }
  if (plan.main->outputs().size() != plan.outputs.size() ||
      plan.main->output_names.size() != plan.outputs.size()) {
    return invalid_argument("the main graph has ", plan.main->outputs().size(),
                            " outputs, the plan ", plan.outputs.size());
  }
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const PlanTensor& tensor = plan.outputs[i];
    const Value& value = *plan.main->outputs()[i];
    if (plan.main->output_names[i] != tensor.name || value.dtype() != tensor.dtype ||
        value.rank() != tensor.shape.size()) {
      return invalid_argument("output ", i, " is '", plan.main->output_names[i], "' ", value.type(),
                              " in the graph, '", tensor.name, "' ", type_of(tensor),
                              " in the plan");
    }
  }
  for (const std::string& name : plan.invariant_inputs) {
    if (find_tensor(plan.inputs, name) == nullptr) {
      return invalid_argument("invariant input '", name, "' is no input of the plan");
    }
  }
  for (const auto& [symbol, range] : plan.dims) {
    if (range.min < 0 || range.min > range.opt || range.opt > range.max) {
      return invalid_argument("size '", symbol, "' ranges over ", range.min, ", ", range.opt, ", ",
                              range.max, "; expected min <= opt <= max");
    }
  }
  return plan.main->verify();
}

}  // namespace tutti
