// Makes nodes: checks them, infers their types, folds constants. Every pass that adds nodes uses
// it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/op_def.h"

namespace tutti {

// Runs a node on the host at compile time. The CPU backend implements it.
class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  // All inputs are constants; all shapes are constant.
  virtual Result<std::vector<Tensor>> evaluate(const Node& node) = 0;
};

// The first error sticks: later calls return null values and do nothing, so a lowering is written
// without a check after each call and ends with `return builder.status()`.
class GraphBuilder {
 public:
  // `evaluator` may be null: nothing is folded then, save symbolic sizes.
  GraphBuilder(Graph* graph, const OpRegistry* registry, ConstantEvaluator* evaluator = nullptr)
      : graph_(graph), registry_(registry), evaluator_(evaluator) {}

  Graph& graph() { return *graph_; }
  const OpRegistry& registry() const { return *registry_; }
  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Returns the sticky status and clears it.
  Status take_status();

  // New nodes go before this one (at the end when null) and bear this name in messages.
  void set_insertion_point(Node* before) { before_ = before; }
  void set_name(std::string_view name) { name_ = name; }

  // One node, its first output. The result is a constant when the node folds.
  Value* op(std::string_view type, std::vector<Value*> inputs, AttributeMap attributes = {});
  // All outputs; num_outputs matters for variadic ones.
  std::vector<Value*> ops(std::string_view type, std::vector<Value*> inputs,
                          AttributeMap attributes, int num_outputs);

  Value* constant(Tensor tensor, std::string_view name = "");
  Value* scalar(DType dtype, double value);  // rank 0
  // An i64 tensor of rank 1 with these elements: a constant, or a Sizes node.
  Value* sizes(const Shape& elements);

  // Frequent shapes of the above.
  Value* reshape(Value* value, Shape shape);
  Value* transpose(Value* value, std::vector<std::int64_t> permutation);
  Value* cast(Value* value, DType dtype);
  Value* expand(Value* value, Shape shape);
  // Half-open ranges along some axes, step 1; starts and ends are already within [0, size].
  Value* slice(Value* value, std::vector<std::int64_t> axes, Shape starts, Shape ends);

  // Folding stops at results larger than this.
  std::int64_t max_folded_bytes = std::int64_t{1} << 30;

 private:
  bool try_fold(Node* node, std::vector<Value*>* outputs);

  Graph* graph_;
  const OpRegistry* registry_;
  ConstantEvaluator* evaluator_;
  Status status_;
  Node* before_ = nullptr;
  std::string name_;
};

}  // namespace tutti
