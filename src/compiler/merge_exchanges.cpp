#include <algorithm>
#include <set>

#include "compiler/exchange_groups.h"
#include "compiler/hoist.h"
#include "compiler/partition.h"
#include "graph/builder.h"

namespace tutti {
namespace {

// Gathers have one dimension for all operands, exchanges of pieces a list of them. Gathers that are
// to become rings stay with those of the same attention.
bool agree(const Node& a, const Node& b, AttentionExchange attention_exchange) {
  const bool is_alike = a.type() == b.type() && a.attr_string("axis") == b.attr_string("axis") &&
                        a.input(0)->dtype() == b.input(0)->dtype();
  if (!is_alike || a.type() != "AllGather") return is_alike;
  const bool is_same_size = a.attr_dims("size") == b.attr_dims("size");
  return a.attr_int("dim") == b.attr_int("dim") &&
         a.attr_int("replicas", 1) == b.attr_int("replicas", 1) &&
         (is_same_size || attention_exchange != AttentionExchange::kRing);
}

template <class T>
void append_attribute(const Node& node, std::string_view name, std::vector<T>* out) {
  const auto& list = std::get<std::vector<T>>(node.attributes().find(name)->second);
  out->insert(out->end(), list.begin(), list.end());
}

// One element where all are equal.
Shape merged_dims(const std::vector<Node*>& group, std::string_view name) {
  Shape list;
  for (const Node* node : group) append_attribute(*node, name, &list);
  const bool is_one = std::all_of(list.begin(), list.end(),
                                  [&](const Dim& element) { return element == list.front(); });
  if (is_one) list.resize(1);
  return list;
}

AttributeMap merged_attributes(const std::vector<Node*>& group) {
  const Node& last = *group.back();
  if (last.type() == "AllGather") {
    AttributeMap attributes = last.attributes();
    for (const char* name : {"units", "size"}) attributes[name] = merged_dims(group, name);
    return attributes;
  }
  AttributeMap attributes = {{"axis", last.attr_string("axis")}, {"ranks", last.attr_int("ranks")}};
  for (const char* name : {"from_dims", "from_replicas", "to_dims", "to_replicas"}) {
    std::vector<std::int64_t> list;
    for (const Node* node : group) append_attribute(*node, name, &list);
    attributes[name] = std::move(list);
  }
  for (const char* name : {"from_units", "to_units", "sizes"}) {
    Shape list;
    for (const Node* node : group) append_attribute(*node, name, &list);
    attributes[name] = std::move(list);
  }
  return attributes;
}

Status merge_group(Partitioned& model, const ExchangeGroup& exchanges,
                   const CompileOptions& options) {
  Graph& graph = *model.graph;
  const std::vector<Node*>& group = exchanges.members;
  const Node& last = *group.back();
  std::vector<Value*> inputs;
  for (const Node* node : group) {
    inputs.insert(inputs.end(), node->inputs().begin(), node->inputs().end());
  }
  GraphBuilder b(&graph, options.registry);
  b.set_insertion_point(group.back());
  b.set_name(last.name());
  const std::vector<Value*> merged =
      b.ops(last.type(), inputs, merged_attributes(group), static_cast<int>(inputs.size()));
  TUTTI_RETURN_IF_ERROR(b.status());
  // In front of the last member stands the merged node; behind it, what waited.
  for (Node* node : exchanges.waiting) graph.move_before(node, group.back());
  std::size_t next = 0;
  for (Node* node : group) {
    std::vector<std::string> names;
    for (Value* output : node->outputs()) {
      names.push_back(output->name());
      graph.replace_uses(output, merged[next + names.size() - 1]);
    }
    graph.erase(node);
    for (const std::string& name : names) graph.rename(merged[next++], name);
  }
  return {};
}

}  // namespace

Status merge_exchanges(Partitioned& model, const CompileOptions& options,
                       const std::vector<std::string>& invariant) {
  // What is exchanged once a prompt must not wait for what is exchanged in every call.
  const std::set<const Value*> varying = varying_values(*model.graph, invariant);
  const auto varies = [&](const Node* node) { return varying.contains(node->input(0)); };
  std::vector<Node*> pending;
  for (const auto& node : model.graph->nodes()) {
    if (node->type() == "AllToAll" || node->type() == "AllGather") pending.push_back(node.get());
  }
  return group_exchanges(
      *model.graph, std::move(pending),
      [&](const Node& a, const Node& b) {
        return agree(a, b, options.attention_exchange) && varies(&a) == varies(&b);
      },
      [&](const ExchangeGroup& group) { return merge_group(model, group, options); });
}

}  // namespace tutti
