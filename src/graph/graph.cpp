#include "graph/graph.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "graph/op_def.h"

namespace tutti {

std::string TensorType::to_string() const { return str_cat(dtype_name(dtype), shape); }

const std::string& Node::type() const { return op_->type; }

std::string Node::describe() const { return str_cat("node '", name_, "' (", type(), ")"); }

void Node::set_input(std::size_t i, Value* value) {
  if (inputs_[i] != nullptr) {
    auto& users = inputs_[i]->users_;
    users.erase(std::find(users.begin(), users.end(), this));
  }
  inputs_[i] = value;
  if (value != nullptr) value->users_.push_back(this);
}

void Node::set_attribute(std::string_view name, Attribute value) {
  attributes_.insert_or_assign(std::string(name), std::move(value));
}

namespace {

template <class T>
const T* find_attribute(const AttributeMap& attributes, std::string_view name) {
  const auto it = attributes.find(name);
  return it == attributes.end() ? nullptr : std::get_if<T>(&it->second);
}

template <class T>
T attribute_or(const AttributeMap& attributes, std::string_view name, T fallback) {
  const T* found = find_attribute<T>(attributes, name);
  return found != nullptr ? *found : std::move(fallback);
}

}  // namespace

std::int64_t Node::attr_int(std::string_view name, std::int64_t fallback) const {
  return attribute_or(attributes_, name, fallback);
}
double Node::attr_float(std::string_view name, double fallback) const {
  return attribute_or(attributes_, name, fallback);
}
std::string Node::attr_string(std::string_view name, std::string_view fallback) const {
  return attribute_or(attributes_, name, std::string(fallback));
}
std::vector<std::int64_t> Node::attr_ints(std::string_view name) const {
  return attribute_or(attributes_, name, std::vector<std::int64_t>());
}
std::vector<double> Node::attr_floats(std::string_view name) const {
  return attribute_or(attributes_, name, std::vector<double>());
}
Shape Node::attr_dims(std::string_view name) const {
  return attribute_or(attributes_, name, Shape());
}
std::shared_ptr<const Graph> Node::attr_graph(std::string_view name) const {
  return attribute_or(attributes_, name, std::shared_ptr<const Graph>());
}

std::vector<Value*> Graph::constants() const {
  std::vector<Value*> out;
  for (const auto& value : values_) {
    if (value->is_constant()) out.push_back(value.get());
  }
  return out;
}

std::vector<Value*> Graph::values() const {
  std::vector<Value*> out;
  out.reserve(values_.size());
  for (const auto& value : values_) out.push_back(value.get());
  return out;
}

Value* Graph::find_value(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::string Graph::unique_name(std::string_view name) {
  if (!name.empty() && !by_name_.contains(name)) return std::string(name);
  for (;;) {
    std::string candidate = str_cat(name, name.empty() ? "v" : ".", next_name_++);
    if (!by_name_.contains(candidate)) return candidate;
  }
}

Value* Graph::new_value(std::string_view name, TensorType type) {
  auto value = std::make_unique<Value>();
  value->name_ = unique_name(name);
  value->type_ = std::move(type);
  by_name_.emplace(value->name_, value.get());
  values_.push_back(std::move(value));
  return values_.back().get();
}

Value* Graph::add_input(std::string_view name, TensorType type) {
  Value* value = new_value(name, std::move(type));
  value->is_input_ = true;
  inputs_.push_back(value);
  return value;
}

Value* Graph::add_constant(std::string_view name, Tensor tensor) {
  Value* value = new_value(name, {tensor.dtype(), to_shape(tensor.dims())});
  // Small integer tensors are sizes, axes and indices: known symbolically too.
  constexpr std::int64_t kMaxSymbolic = 256;
  const bool integral = is_integer(tensor.dtype()) || tensor.dtype() == DType::kBool;
  if (integral && tensor.element_count() <= kMaxSymbolic) {
    const std::vector<std::int64_t> elements = tensor.to_ints();
    value->symbolic_ = std::vector<Dim>(elements.begin(), elements.end());
  }
  value->constant_ = std::move(tensor);
  return value;
}

void Graph::remove_input(Value* value) {
  assert(value->users_.empty());
  std::erase(inputs_, value);
  erase_value(value);
}

Node* Graph::add_node(const OpDef& op, std::string_view name, std::vector<Value*> inputs,
                      AttributeMap attributes, std::vector<TensorType> output_types, Node* before) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  auto node = std::make_unique<Node>();
  Node* raw = node.get();
  raw->op_ = &op;
  raw->name_ = name;
  raw->inputs_ = std::move(inputs);
  raw->attributes_ = std::move(attributes);
  for (Value* input : raw->inputs_) {
    if (input != nullptr) input->users_.push_back(raw);
  }
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    Value* value = new_value("", std::move(output_types[i]));
    value->producer_ = raw;
    value->producer_output_ = static_cast<int>(i);
    raw->outputs_.push_back(value);
  }
  const auto position = before == nullptr ? nodes_.end() : before->position_;
  raw->position_ = nodes_.insert(position, std::move(node));
  return raw;
}

void Graph::move_before(Node* node, Node* before) {
  if (node == before) return;
  nodes_.splice(before == nullptr ? nodes_.end() : before->position_, nodes_, node->position_);
}

void Graph::erase(Node* node) {
  for (std::size_t i = 0; i < node->inputs_.size(); ++i) node->set_input(i, nullptr);
  for (Value* output : node->outputs_) {
    assert(output->users_.empty());
    erase_value(output);
  }
  nodes_.erase(node->position_);
}

void Graph::erase_value(Value* value) {
  by_name_.erase(value->name_);
  // From the back: what is erased was mostly just made, by folding.
  const auto it = std::find_if(values_.rbegin(), values_.rend(),
                               [value](const auto& owned) { return owned.get() == value; });
  values_.erase(std::next(it).base());
}

void Graph::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  const std::vector<Node*> users = from->users_;
  for (Node* user : users) {
    for (std::size_t i = 0; i < user->inputs_.size(); ++i) {
      if (user->inputs_[i] == from) user->set_input(i, to);
    }
  }
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

Value* Graph::replace_with_constant(Value* value, Tensor tensor) {
  Value* constant = add_constant("", std::move(tensor));
  replace_uses(value, constant);
  return constant;
}

void Graph::rename(Value* value, std::string_view name) {
  if (value->name_ == name) return;
  by_name_.erase(value->name_);
  value->name_ = unique_name(name);
  by_name_.emplace(value->name_, value);
}

int Graph::remove_dead() {
  const std::set<const Value*> outputs(outputs_.begin(), outputs_.end());
  int removed = 0;
  // Backwards, so that users go before what they use.
  for (auto it = nodes_.end(); it != nodes_.begin();) {
    Node* node = std::prev(it)->get();
    const bool live = std::any_of(node->outputs_.begin(), node->outputs_.end(), [&](Value* value) {
      return !value->users_.empty() || outputs.contains(value);
    });
    if (live) {
      --it;
    } else {
      for (std::size_t i = 0; i < node->inputs_.size(); ++i) node->set_input(i, nullptr);
      for (Value* output : node->outputs_) {
        by_name_.erase(output->name_);
        output->producer_ = nullptr;
        output->name_.clear();  // marks it for the sweep below
      }
      nodes_.erase(std::prev(it));
      ++removed;
    }
  }
  std::erase_if(values_, [&](const std::unique_ptr<Value>& value) {
    if (value->name_.empty()) return true;
    const bool dead =
        value->is_constant() && value->users_.empty() && !outputs.contains(value.get());
    if (dead) by_name_.erase(value->name_);
    return dead;
  });
  return removed;
}

Status Graph::verify() const {
  std::set<const Value*> defined;
  for (const auto& value : values_) {
    if (value->producer_ == nullptr) defined.insert(value.get());
  }
  for (const auto& node : nodes_) {
    for (const Value* input : node->inputs_) {
      if (input == nullptr) continue;
      if (!defined.contains(input)) {
        return internal_error(node->describe(), " uses '", input->name_, "' before it is made");
      }
      const auto& users = input->users_;
      if (std::find(users.begin(), users.end(), node.get()) == users.end()) {
        return internal_error(node->describe(), " is missing among the users of '", input->name_,
                              "'");
      }
    }
    for (const Value* output : node->outputs_) {
      if (output->producer_ != node.get()) {
        return internal_error(node->describe(), " does not own its output '", output->name_, "'");
      }
      defined.insert(output);
    }
  }
  for (const Value* output : outputs_) {
    if (!defined.contains(output)) return internal_error("a graph output is never made");
  }
  if (!output_names.empty() && output_names.size() != outputs_.size()) {
    return internal_error("graph has ", outputs_.size(), " outputs and ", output_names.size(),
                          " output names");
  }
  return Status();
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  copy->name = name;
  copy->output_names = output_names;
  copy->next_name_ = next_name_;
  std::map<const Value*, Value*> mapped;
  for (const auto& value : values_) {
    Value* twin = copy->new_value(value->name_, value->type_);
    twin->constant_ = value->constant_;
    twin->is_input_ = value->is_input_;
    twin->symbolic_ = value->symbolic_;
    twin->producer_output_ = value->producer_output_;
    mapped[value.get()] = twin;
  }
  for (const Value* input : inputs_) copy->inputs_.push_back(mapped[input]);
  for (const Value* output : outputs_) copy->outputs_.push_back(mapped[output]);
  for (const auto& node : nodes_) {
    auto twin = std::make_unique<Node>();
    twin->op_ = node->op_;
    twin->name_ = node->name_;
    twin->attributes_ = node->attributes_;
    for (const Value* input : node->inputs_) {
      Value* operand = input == nullptr ? nullptr : mapped[input];
      twin->inputs_.push_back(operand);
      if (operand != nullptr) operand->users_.push_back(twin.get());
    }
    for (const Value* output : node->outputs_) {
      mapped[output]->producer_ = twin.get();
      twin->outputs_.push_back(mapped[output]);
    }
    Node* raw = twin.get();
    raw->position_ = copy->nodes_.insert(copy->nodes_.end(), std::move(twin));
  }
  return copy;
}

}  // namespace tutti
