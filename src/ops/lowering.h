// How an ONNX node becomes core operators. One function an ONNX operator, in its family's file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/op_def.h"

namespace tutti {

// What a lowering sees of one ONNX node, and where it puts the results.
class LoweringContext {
 public:
  LoweringContext(GraphBuilder* builder, std::string op_type, int opset, std::vector<Value*> inputs,
                  AttributeMap attributes, int num_outputs)
      : op_type(std::move(op_type)),
        opset(opset),
        attributes(std::move(attributes)),
        b(*builder),
        outputs(static_cast<std::size_t>(num_outputs), nullptr),
        inputs_(std::move(inputs)) {}

  const std::string op_type;
  const int opset;  // version of the node's domain that the model imports
  const AttributeMap attributes;
  GraphBuilder& b;
  std::vector<Value*> outputs;  // to fill; one a requested output

  std::size_t num_inputs() const { return inputs_.size(); }
  Value* input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }

  std::int64_t attr_int(std::string_view name, std::int64_t fallback) const;
  double attr_float(std::string_view name, double fallback) const;
  std::string attr_string(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> attr_ints(std::string_view name) const;  // empty when absent
  bool has(std::string_view name) const { return attributes.contains(name); }

  // Elements of an input that shapes depend on (axes, sizes, starts): constant or symbolic. The
  // error names the input by position and says that its content must be known at compile time and
  // that `--bind NAME=FILE.npy` fixes a graph input.
  Result<std::vector<Dim>> known_sizes(std::size_t i) const;
  // The same where symbols are not enough.
  Result<std::vector<std::int64_t>> known_ints(std::size_t i) const;
  // Elements of a constant input of numbers, in whatever type they are.
  Result<std::vector<double>> known_floats(std::size_t i) const;
  // A constant scalar input (or the fallback when absent).
  Result<double> known_float(std::size_t i, double fallback) const;

 private:
  std::vector<Value*> inputs_;
};

struct Lowering {
  std::string domain = {};  // "" is ai.onnx
  std::string op_type = {};
  int since_opset = 1;  // this rule serves from here up to the next rule of the same operator
  // Attributes that the rule understands; any other is a compile error that names it.
  std::vector<std::string> attributes = {};
  Status (*lower)(LoweringContext& context) = nullptr;
};

class LoweringRegistry {
 public:
  void add(Lowering lowering);
  // The rule with the largest since_opset <= opset; null when there is none.
  const Lowering* find(std::string_view domain, std::string_view op_type, int opset) const;
  // The supported operator whose name is closest (for messages), "" when nothing is close.
  std::string nearest(std::string_view op_type) const;
  std::vector<const Lowering*> all() const;

 private:
  std::map<std::string, std::vector<Lowering>, std::less<>> rules_;  // "domain::type", by opset
};

// One function a family file; register_all_ops calls them all.
void register_all_ops(OpRegistry* ops, LoweringRegistry* lowerings);

}  // namespace tutti
