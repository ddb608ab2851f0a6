#include "graph/builder.h"

#include <algorithm>

#include "graph/type_limits.h"

namespace tutti {
namespace {

// Kernels of these have an effect beyond their outputs, or their output is better left symbolic.
bool may_fold(const Node& node) { return !node.op().is_exchange; }

Status check_arity(const OpDef& op, std::size_t inputs, std::size_t outputs) {
  const auto at_least = static_cast<std::size_t>(op.min_inputs);
  const bool too_many =
      op.max_inputs != kVariadic && inputs > static_cast<std::size_t>(op.max_inputs);
  if (inputs < at_least || too_many) {
    return invalid_argument(
        "has ", inputs, " inputs, expected ", op.min_inputs,
        op.max_inputs == kVariadic ? std::string(" or more") : str_cat(" to ", op.max_inputs));
  }
  if (op.num_outputs != kVariadic && outputs != static_cast<std::size_t>(op.num_outputs)) {
    return invalid_argument("has ", outputs, " outputs, expected ", op.num_outputs);
  }
  return Status();
}

}  // namespace

Status GraphBuilder::take_status() {
  Status status = std::move(status_);
  status_ = Status();
  return status;
}

Value* GraphBuilder::op(std::string_view type, std::vector<Value*> inputs,
                        AttributeMap attributes) {
  const std::vector<Value*> outputs = ops(type, std::move(inputs), std::move(attributes), 1);
  return outputs.empty() ? nullptr : outputs[0];
}

std::vector<Value*> GraphBuilder::ops(std::string_view type, std::vector<Value*> inputs,
                                      AttributeMap attributes, int num_outputs) {
  const std::vector<Value*> nothing(static_cast<std::size_t>(num_outputs), nullptr);
  if (!status_.ok()) return nothing;
  const auto fail_node = [&](const Status& status) {
    fail(status.with_context(str_cat("node '", name_, "' (", type, ")")));
    return nothing;
  };
  const OpDef* def = registry_->find(type);
  if (def == nullptr) return fail_node(internal_error("there is no core operator of this name"));
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  // Of any number of inputs none is optional.
  const std::size_t required =
      def->max_inputs == kVariadic ? inputs.size() : static_cast<std::size_t>(def->min_inputs);
  for (std::size_t i = 0; i < required; ++i) {
    if (i < inputs.size() && inputs[i] == nullptr) {
      return fail_node(invalid_argument("input ", i, " is missing"));
    }
  }
  if (const Status status = check_arity(*def, inputs.size(), static_cast<std::size_t>(num_outputs));
      !status.ok()) {
    return fail_node(status);
  }
  if (const Status status = check_attributes(*def, attributes); !status.ok()) {
    return fail_node(status);
  }
  // Inference reads the node, so the node comes first, with untyped outputs.
  Node* node =
      graph_->add_node(*def, name_, std::move(inputs), std::move(attributes),
                       std::vector<TensorType>(static_cast<std::size_t>(num_outputs)), before_);
  auto types = def->infer(*node, num_outputs);
  if (types.ok()) types = within_limits(*std::move(types));
  if (!types.ok()) {
    graph_->erase(node);
    return fail_node(types.status());
  }
  for (std::size_t i = 0; i < types->size(); ++i) node->output(i)->set_type((*types)[i]);
  if (def->symbolic != nullptr && num_outputs == 1) {
    node->output()->set_symbolic(def->symbolic(*node));
  }
  std::vector<Value*> outputs = node->outputs();
  if (try_fold(node, &outputs)) graph_->erase(node);
  return outputs;
}

bool GraphBuilder::try_fold(Node* node, std::vector<Value*>* outputs) {
  // Sizes that turned out constant need no kernel.
  Value* first = node->output();
  if (first->symbolic() && is_integer(first->dtype()) && node->outputs().size() == 1) {
    const auto dims = to_constant(*first->symbolic());
    const auto shape = to_constant(first->shape());
    if (dims && shape) {
      Tensor tensor = *Tensor::allocate(first->dtype(), *shape);
      for (std::size_t i = 0; i < dims->size(); ++i) {
        // Little-endian storage: the low bytes of the i64 are the narrower integer.
        const std::size_t width = dtype_size(first->dtype());
        const auto bytes = std::as_bytes(std::span(&(*dims)[i], 1)).first(width);
        std::copy(bytes.begin(), bytes.end(), tensor.mutable_data() + i * width);
      }
      (*outputs)[0] = graph_->add_constant("", std::move(tensor));
      return true;
    }
  }
  if (evaluator_ == nullptr || !may_fold(*node)) return false;
  for (const Value* input : node->inputs()) {
    if (input != nullptr && !input->is_constant()) return false;
  }
  std::int64_t bytes = 0;
  for (const Value* output : node->outputs()) {
    const auto dims = to_constant(output->shape());
    if (!dims) return false;
    const auto size = checked_byte_size(output->dtype(), *dims);
    if (!size.ok() || __builtin_add_overflow(bytes, *size, &bytes)) return false;
  }
  if (bytes > max_folded_bytes) return false;
  // Attributes with free symbols (a Sizes node, say) are no constants.
  for (const auto& [name, attribute] : node->attributes()) {
    const Shape* dims = std::get_if<Shape>(&attribute);
    if (dims != nullptr && !to_constant(*dims)) return false;
  }
  auto tensors = evaluator_->evaluate(*node);
  if (!tensors.ok()) return false;  // no host kernel: the node stays
  for (std::size_t i = 0; i < tensors->size(); ++i) {
    (*outputs)[i] = graph_->add_constant("", std::move((*tensors)[i]));
  }
  return true;
}

Value* GraphBuilder::constant(Tensor tensor, std::string_view name) {
  return status_.ok() ? graph_->add_constant(name, std::move(tensor)) : nullptr;
}

Value* GraphBuilder::scalar(DType dtype, double value) {
  return constant(Tensor::scalar(dtype, value));
}

Value* GraphBuilder::sizes(const Shape& elements) {
  if (const auto dims = to_constant(elements)) return constant(Tensor::ints(*dims));
  return op("Sizes", {}, {{"values", elements}});
}

Value* GraphBuilder::reshape(Value* value, Shape shape) {
  if (value != nullptr && value->shape() == shape) return value;
  return op("Reshape", {value}, {{"shape", std::move(shape)}});
}

Value* GraphBuilder::transpose(Value* value, std::vector<std::int64_t> permutation) {
  return op("Transpose", {value}, {{"perm", std::move(permutation)}});
}

Value* GraphBuilder::cast(Value* value, DType dtype) {
  if (value != nullptr && value->dtype() == dtype) return value;
  return op("Cast", {value}, {{"to", std::string(dtype_name(dtype))}});
}

Value* GraphBuilder::expand(Value* value, Shape shape) {
  if (value != nullptr && value->shape() == shape) return value;
  return op("Expand", {value}, {{"shape", std::move(shape)}});
}

Value* GraphBuilder::slice(Value* value, std::vector<std::int64_t> axes, Shape starts, Shape ends) {
  std::vector<std::int64_t> steps(axes.size(), 1);
  return op("Slice", {value},
            {{"axes", std::move(axes)},
             {"starts", std::move(starts)},
             {"ends", std::move(ends)},
             {"steps", std::move(steps)}});
}

}  // namespace tutti
