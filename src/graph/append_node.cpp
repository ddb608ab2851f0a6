#include "graph/append_node.h"

#include "graph/type_limits.h"

namespace tutti {
namespace {

Status check_operands(const OpDef& op, const std::vector<Value*>& inputs, std::size_t outputs) {
  const bool too_many =
      op.max_inputs != kVariadic && inputs.size() > static_cast<std::size_t>(op.max_inputs);
  if (inputs.size() < static_cast<std::size_t>(op.min_inputs) || too_many) {
    return invalid_argument(
        "has ", inputs.size(), " inputs, expected ", op.min_inputs,
        op.max_inputs == kVariadic ? std::string(" or more") : str_cat(" to ", op.max_inputs));
  }
  // Of any number of inputs none is optional.
  const std::size_t required =
      op.max_inputs == kVariadic ? inputs.size() : static_cast<std::size_t>(op.min_inputs);
  for (std::size_t i = 0; i < required; ++i) {
    if (inputs[i] == nullptr) return invalid_argument("input ", i, " is missing");
  }
  const bool count_differs =
      op.num_outputs != kVariadic && outputs != static_cast<std::size_t>(op.num_outputs);
  if (count_differs || outputs == 0) {
    return invalid_argument("has ", outputs, " outputs, expected ",
                            op.num_outputs == kVariadic ? 1 : op.num_outputs);
  }
  return Status();
}

// A name may be held for a moment by the next output of the same node; the second round settles it.
void name_outputs(Graph* graph, const Node& node, const std::vector<std::string>& names) {
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i) graph->rename(node.output(i), names[i]);
  }
}

}  // namespace

Result<Node*> append_node(Graph* graph, const OpDef& op, std::string_view name,
                          std::vector<Value*> inputs, AttributeMap attributes,
                          const std::vector<std::string>& output_names) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  TUTTI_RETURN_IF_ERROR(check_operands(op, inputs, output_names.size()));
  TUTTI_RETURN_IF_ERROR(check_attributes(op, attributes));
  for (std::size_t i = 0; i < output_names.size(); ++i) {
    if (output_names[i].empty()) return invalid_argument("output ", i, " has no name");
    bool taken = graph->find_value(output_names[i]) != nullptr;
    for (std::size_t j = 0; j < i; ++j) taken = taken || output_names[j] == output_names[i];
    if (taken) {
      return invalid_argument("output '", output_names[i], "' has the name of another value");
    }
  }
  Node* node = graph->add_node(op, name, std::move(inputs), std::move(attributes),
                               std::vector<TensorType>(output_names.size()));
  const int num_outputs = static_cast<int>(output_names.size());
  Result<std::vector<TensorType>> types = op.infer(*node, num_outputs);
  if (types.ok() && types->size() != output_names.size()) {
    types = invalid_argument("has ", output_names.size(), " outputs, expected ", types->size());
  }
  if (types.ok()) types = within_limits(*std::move(types));
  if (!types.ok()) {
    graph->erase(node);
    return types.status();
  }
  for (std::size_t i = 0; i < types->size(); ++i) node->output(i)->set_type((*types)[i]);
  name_outputs(graph, *node, output_names);
  if (op.symbolic != nullptr && num_outputs == 1) {
    node->output()->set_symbolic(op.symbolic(*node));
  }
  return node;
}

}  // namespace tutti
