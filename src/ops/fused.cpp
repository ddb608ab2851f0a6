// Fused: nodes that a backend may run as one kernel. PipelinedAttention, FusedExchange: nodes
// around exchanges that it may overlap or join.
#include <algorithm>

#include "ops/common.h"
#include "ops/families.h"
#include "ops/joined_nodes.h"

namespace tutti {
namespace {

// The body has an input of the operand's type for each operand, and nodes of ordinary operators.
Result<std::vector<TensorType>> infer_fused(const Node& node, int num_outputs) {
  const std::shared_ptr<const Graph> body = node.attr_graph("body");
  TUTTI_RETURN_IF_ERROR(check_body(node, num_outputs, /*is_of_scalars=*/false));
  if (!body->constants().empty()) {
    return invalid_argument("the body holds the constant '", body->constants()[0]->name(),
                            "'; expected an operand");
  }
  for (const auto& inner : body->nodes()) {
    if ((inner->op().is_exchange && !node.op().is_exchange) || inner->type() == node.type()) {
      return invalid_argument("the body holds ", inner->describe(), ", which cannot be fused");
    }
  }
  std::vector<TensorType> types;
  for (const Value* output : body->outputs()) {
    const auto& outputs = body->outputs();
    if (output->producer() == nullptr || std::count(outputs.begin(), outputs.end(), output) > 1) {
      return invalid_argument("the body's output '", output->name(),
                              "' is an input or another output, too");
    }
    types.push_back(output->type());
  }
  return types;
}

Dim fused_flops(const Node& node) {
  Dim total = 0;
  for (const auto& inner : node.attr_graph("body")->nodes()) {
    if (inner->op().is_view) continue;
    total = total + (inner->op().flops != nullptr ? inner->op().flops(*inner)
                                                  : product(inner->output()->shape()));
  }
  return total;
}

OpDef op_of_nodes(const char* type) {
  OpDef def;
  def.type = type;
  def.domain = "ai.tutti";
  def.max_inputs = kVariadic;
  def.num_outputs = kVariadic;
  def.attributes = {{"body", AttributeKind::kGraph, true}};
  def.infer = infer_fused;
  def.flops = fused_flops;
  return def;
}

OpDef exchange_of_nodes(const char* type) {
  OpDef def = op_of_nodes(type);
  def.is_exchange = true;
  return def;
}

}  // namespace

const OpDef& pipelined_attention_op() {
  static const OpDef kOp = exchange_of_nodes("PipelinedAttention");
  return kOp;
}

const OpDef& fused_exchange_op() {
  static const OpDef kOp = exchange_of_nodes("FusedExchange");
  return kOp;
}

void register_fused_ops(OpRegistry* ops) {
  ops->add(op_of_nodes("Fused"));
  ops->add(pipelined_attention_op());
  ops->add(fused_exchange_op());
}

}  // namespace tutti
