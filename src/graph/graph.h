// The intermediate representation: a list of nodes in execution order over typed values.
//
// The nodes are *core operators*: what src/ops lowers ONNX to. A core operator takes tensors as
// inputs and everything that determines shapes (axes, sizes, starts, ends) as attributes, possibly
// symbolic (Dim). So layouts, shapes and memory can be known before any tensor is.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/dim.h"

namespace tutti {

class Graph;
class Node;
struct OpDef;

struct TensorType {
  DType dtype = DType::kUndefined;
  Shape shape;

  bool operator==(const TensorType&) const = default;
  std::string to_string() const;  // f32[batch, 16, 8]
};

using Attribute =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                 std::vector<std::string>, Shape, Tensor, std::shared_ptr<const Graph>>;
using AttributeMap = std::map<std::string, Attribute, std::less<>>;

// One tensor of the graph: an input, a constant, or an output of one node.
class Value {
 public:
  const std::string& name() const { return name_; }  // unique in its graph
  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::size_t rank() const { return type_.shape.size(); }

  Node* producer() const { return producer_; }  // null for inputs and constants
  int producer_output() const { return producer_output_; }
  bool is_constant() const { return constant_.defined(); }
  const Tensor& constant() const { return constant_; }
  bool is_input() const { return is_input_; }

  // Elements of a small integer tensor (row-major) as symbolic sizes, where they are known.
  const std::optional<std::vector<Dim>>& symbolic() const { return symbolic_; }

  // One entry for each use as an operand (a node that takes the value twice is listed twice).
  const std::vector<Node*>& users() const { return users_; }

  void set_type(TensorType type) { type_ = std::move(type); }
  void set_symbolic(std::optional<std::vector<Dim>> elements) { symbolic_ = std::move(elements); }

 private:
  friend class Graph;
  friend class Node;
  std::string name_;
  TensorType type_;
  Node* producer_ = nullptr;
  int producer_output_ = 0;
  Tensor constant_;
  bool is_input_ = false;
  std::optional<std::vector<Dim>> symbolic_;
  std::vector<Node*> users_;
};

class Node {
 public:
  const OpDef& op() const { return *op_; }
  const std::string& type() const;                   // op().type
  const std::string& name() const { return name_; }  // of the source node, for messages

  // An absent optional input is null. Trailing absent inputs are dropped.
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  Value* input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  Value* output(std::size_t i = 0) const { return outputs_[i]; }
  void set_input(std::size_t i, Value* value);

  const AttributeMap& attributes() const { return attributes_; }
  void set_attribute(std::string_view name, Attribute value);
  bool has_attribute(std::string_view name) const { return attributes_.contains(name); }
  // The attribute, or the fallback when it is absent. The builder has checked kinds against OpDef.
  std::int64_t attr_int(std::string_view name, std::int64_t fallback = 0) const;
  double attr_float(std::string_view name, double fallback = 0) const;
  std::string attr_string(std::string_view name, std::string_view fallback = "") const;
  std::vector<std::int64_t> attr_ints(std::string_view name) const;
  std::vector<double> attr_floats(std::string_view name) const;
  Shape attr_dims(std::string_view name) const;  // empty when absent
  std::shared_ptr<const Graph> attr_graph(std::string_view name) const;

  // "node 'blocks.0.attn/MatMul' (MatMul)": how every message names a node.
  std::string describe() const;

 private:
  friend class Graph;
  const OpDef* op_ = nullptr;
  std::string name_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
  AttributeMap attributes_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;

  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  std::vector<Value*> constants() const;  // in creation order
  std::vector<Value*> values() const;     // all of them
  Value* find_value(std::string_view name) const;

  // Names: an empty or taken one is made unique.
  Value* add_input(std::string_view name, TensorType type);
  Value* add_constant(std::string_view name, Tensor tensor);
  void add_output(Value* value) { outputs_.push_back(value); }
  void set_output(std::size_t i, Value* value) { outputs_[i] = value; }
  void clear_outputs() { outputs_.clear(); }
  // Removes a graph input that nothing uses.
  void remove_input(Value* value);

  // A node before `before` (at the end when null), with one new value for each output type.
  Node* add_node(const OpDef& op, std::string_view name, std::vector<Value*> inputs,
                 AttributeMap attributes, std::vector<TensorType> output_types,
                 Node* before = nullptr);
  // Moves `node` to before `before` (to the end when null). The caller keeps the order valid.
  void move_before(Node* node, Node* before);
  // Removes a node whose outputs are unused.
  void erase(Node* node);
  // Every use of `from`, as an operand or a graph output, becomes a use of `to`. `from` keeps its
  // producer; a graph output's name moves to `to`'s slot through output_names.
  void replace_uses(Value* from, Value* to);
  // Turns a node's output into a constant: uses move to a new constant value.
  Value* replace_with_constant(Value* value, Tensor tensor);
  void rename(Value* value, std::string_view name);

  // Names under which outputs are seen from outside; kept when values are replaced.
  std::vector<std::string> output_names;

  // Drops nodes and constants that no output needs. Returns how many nodes went.
  int remove_dead();

  // Every operand is defined before its use, users lists agree, output count matches.
  Status verify() const;

  // Deep copy; constants share storage.
  std::unique_ptr<Graph> clone() const;

 private:
  Value* new_value(std::string_view name, TensorType type);
  std::string unique_name(std::string_view name);
  void erase_value(Value* value);

  std::vector<std::unique_ptr<Value>> values_;
  std::map<std::string, Value*, std::less<>> by_name_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
  std::uint64_t next_name_ = 0;
};

}  // namespace tutti
