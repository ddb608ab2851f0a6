// A gated MLP: two products of one operand that one pointwise node combines become one node, so
// that a backend may combine them where they are summed up. In 16 bits, where matrix units do the
// work.
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// A product with nothing but a matrix that stays, for this reader alone.
const Node* plain_product(const Graph& graph, const Value* value) {
  const Node* product = producer_of(value, "Linear");
  if (product == nullptr || !has_single_use(graph, value) || product->inputs().size() != 2 ||
      !product->attr_string("activation").empty()) {
    return nullptr;
  }
  const DType dtype = value->dtype();
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? product : nullptr;
}

bool combines_products(const Graph& graph, const Node& node) {
  if (!node.op().is_pointwise || node.inputs().size() != 2 || node.outputs().size() != 1) {
    return false;
  }
  const Node* a = plain_product(graph, node.input(0));
  const Node* b = plain_product(graph, node.input(1));
  return a != nullptr && b != nullptr && a != b && a->input(0) == b->input(0) &&
         a->output()->shape() == b->output()->shape() &&
         a->attr_int("transpose_w") == b->attr_int("transpose_w") &&
         node.output()->dtype() == a->output()->dtype();
}

}  // namespace

Status fuse_gates(Graph& graph, const CompileOptions& options) {
  if (!options.fuse) return {};
  std::vector<Node*> found;
  for (const auto& node : graph.nodes()) {
    if (combines_products(graph, *node)) found.push_back(node.get());
  }
  GraphBuilder b(&graph, options.registry);
  for (Node* node : found) {
    auto body = std::make_shared<Graph>();
    Node* products[] = {node->input(0)->producer(), node->input(1)->producer()};
    std::vector<Value*> operands = {products[0]->input(0), products[0]->input(1),
                                    products[1]->input(1)};
    std::vector<Value*> twins;
    for (const Value* operand : operands) twins.push_back(body->add_input("", operand->type()));
    std::vector<Value*> results;
    for (std::size_t i = 0; i < 2; ++i) {
      results.push_back(body->add_node(products[i]->op(), products[i]->name(),
                                       {twins[0], twins[i + 1]}, products[i]->attributes(),
                                       {products[i]->output()->type()})
                            ->output());
    }
    body->add_output(body->add_node(node->op(), node->name(), results, node->attributes(),
                                    {node->output()->type()})
                         ->output());
    b.set_insertion_point(node);
    b.set_name(node->name());
    Value* y = b.op("Fused", operands, {{"body", std::shared_ptr<const Graph>(body)}});
    TUTTI_RETURN_IF_ERROR(b.status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return graph.verify();
}

}  // namespace tutti
