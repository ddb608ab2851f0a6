// Lowers single ONNX nodes of the pointwise, movement, reduction and product families, for tests.
#pragma once

#include <initializer_list>
#include <vector>

#include "ops/lowering.h"

namespace tutti {

class LoweringBench {
 public:
  LoweringBench();

  Graph& graph() { return graph_; }
  GraphBuilder& builder() { return builder_; }
  const LoweringRegistry& lowerings() const { return lowerings_; }

  Value* input(DType dtype, Shape shape) { return graph_.add_input("", {dtype, std::move(shape)}); }
  Value* ints(std::initializer_list<std::int64_t> values);
  Value* constant(Tensor tensor) { return graph_.add_constant("", std::move(tensor)); }
  // An i64 tensor whose elements are these sizes.
  Value* sizes(const Shape& elements) { return builder_.sizes(elements); }

  // The outputs of an ONNX node at an opset, or what is wrong with it.
  Result<std::vector<Value*>> lower(std::string_view type, std::vector<Value*> inputs,
                                    AttributeMap attributes = {}, int opset = 18,
                                    int num_outputs = 1);
  // The only output; a test failure (and null) when it does not lower.
  Value* one(std::string_view type, std::vector<Value*> inputs, AttributeMap attributes = {},
             int opset = 18);
  // The type of the core operator that made a value; "constant" or "input" otherwise.
  static std::string made_by(const Value* value);
  // The value's elements as text: "[2*h, 4]"; "unknown" where they are not.
  static std::string elements(const Value* value);

 private:
  OpRegistry ops_;
  LoweringRegistry lowerings_;
  Graph graph_;
  GraphBuilder builder_;
};

}  // namespace tutti
