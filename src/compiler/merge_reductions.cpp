#include <algorithm>

#include "compiler/cost.h"
#include "compiler/exchange_groups.h"
#include "compiler/passes.h"
#include "graph/builder.h"

namespace tutti {
namespace {

// Joining copies each operand twice, there and back, and reads and writes it both times. That has
// to take less than the exchange that is saved.
bool is_worth_copying(const Node& node, const CompileOptions& options) {
  constexpr double kAccesses = 4;
  const SizeEstimate size(options.typical_sizes);
  const Value& value = *node.input(0);
  const double bytes =
      size(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
  return kAccesses * bytes / options.rates.memory_bytes_per_second <
         options.rates.seconds_per_exchange;
}

bool agree(const Node& a, const Node& b) {
  return a.attr_string("axis") == b.attr_string("axis") &&
         a.attr_string("op", "sum") == b.attr_string("op", "sum") &&
         a.input(0)->dtype() == b.input(0)->dtype();
}

Status merge_group(Graph& graph, const ExchangeGroup& group, const CompileOptions& options) {
  Node* last = group.members.back();
  GraphBuilder b(&graph, options.registry);
  b.set_insertion_point(last);
  b.set_name(last->name());
  std::vector<Value*> rows;
  Shape sizes;
  for (const Node* node : group.members) {
    sizes.push_back(product(node->input(0)->shape()));
    rows.push_back(b.reshape(node->input(0), {sizes.back()}));
  }
  const AttributeMap along{{"axis", std::int64_t{0}}};
  Value* sums = b.op("AllReduce", {b.op("Concat", rows, along)}, last->attributes());
  const std::vector<Value*> parts =
      b.ops("Split", {sums}, {{"axis", std::int64_t{0}}, {"sizes", sizes}},
            static_cast<int>(sizes.size()));
  TUTTI_RETURN_IF_ERROR(b.status());
  std::vector<Value*> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    results.push_back(b.reshape(parts[i], group.members[i]->output()->shape()));
  }
  TUTTI_RETURN_IF_ERROR(b.status());
  for (Node* node : group.waiting) graph.move_before(node, last);
  for (std::size_t i = 0; i < results.size(); ++i) {
    Node* node = group.members[i];
    const std::string name = node->output()->name();
    results[i]->set_symbolic(node->output()->symbolic());
    graph.replace_uses(node->output(), results[i]);
    graph.erase(node);
    graph.rename(results[i], name);
  }
  return {};
}

}  // namespace

Status merge_reductions(Graph& graph, const CompileOptions& options) {
  std::vector<Node*> pending;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "AllReduce" && is_worth_copying(*node, options)) {
      pending.push_back(node.get());
    }
  }
  return group_exchanges(graph, std::move(pending), agree, [&](const ExchangeGroup& group) {
    return merge_group(graph, group, options);
  });
}

}  // namespace tutti
