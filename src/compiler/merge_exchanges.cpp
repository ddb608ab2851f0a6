#include <map>

#include "compiler/partition.h"
#include "graph/builder.h"

namespace tutti {
namespace {

using Positions = std::map<const Node*, int>;

Positions positions_of(const Graph& graph) {
  Positions positions;
  for (const auto& node : graph.nodes()) {
    positions.emplace(node.get(), static_cast<int>(positions.size()));
  }
  return positions;
}

bool agree(const Node& a, const Node& b) {
  return a.attr_string("axis") == b.attr_string("axis") &&
         a.input(0)->dtype() == b.input(0)->dtype();
}

// Everything that uses an output of `node` comes after position `at`. Then nothing up to `at`
// depends on `node`, and it may move there.
bool used_only_after(const Node& node, int at, const Positions& positions) {
  for (const Value* output : node.outputs()) {
    for (const Node* user : output->users()) {
      if (positions.at(user) <= at) return false;
    }
  }
  return true;
}

template <class T>
void append_attribute(const Node& node, std::string_view name, std::vector<T>* out) {
  const auto& list = std::get<std::vector<T>>(node.attributes().find(name)->second);
  out->insert(out->end(), list.begin(), list.end());
}

Status merge_group(Partitioned& model, const std::vector<Node*>& group,
                   const CompileOptions& options, Positions* positions) {
  Graph& graph = *model.graph;
  const Node& last = *group.back();
  AttributeMap attributes = {{"axis", last.attr_string("axis")}, {"ranks", last.attr_int("ranks")}};
  std::vector<Value*> inputs;
  for (const Node* node : group) {
    inputs.insert(inputs.end(), node->inputs().begin(), node->inputs().end());
  }
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
  GraphBuilder b(&graph, options.registry);
  b.set_insertion_point(group.back());
  b.set_name(last.name());
  const std::vector<Value*> merged =
      b.ops("AllToAll", inputs, std::move(attributes), static_cast<int>(inputs.size()));
  TUTTI_RETURN_IF_ERROR(b.status());
  const int position = positions->at(group.back());
  for (const Node* node : group) positions->erase(node);
  positions->emplace(merged[0]->producer(), position);
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

Status merge_exchanges(Partitioned& model, const CompileOptions& options) {
  std::vector<Node*> pending;
  for (const auto& node : model.graph->nodes()) {
    if (node->type() == "AllToAll") pending.push_back(node.get());
  }
  Positions positions = positions_of(*model.graph);
  // Greedy from the first on: each takes the later ones that it can wait for.
  for (std::size_t first = 0; first < pending.size(); ++first) {
    if (pending[first] == nullptr) continue;
    std::vector<Node*> group = {pending[first]};
    for (std::size_t next = first + 1; next < pending.size(); ++next) {
      Node* candidate = pending[next];
      if (candidate == nullptr || !agree(*group[0], *candidate)) continue;
      const int at = positions.at(candidate);
      bool can_wait = true;
      for (const Node* node : group) can_wait = can_wait && used_only_after(*node, at, positions);
      if (!can_wait) break;  // later ones are further away
      group.push_back(candidate);
      pending[next] = nullptr;
    }
    if (group.size() > 1) TUTTI_RETURN_IF_ERROR(merge_group(model, group, options, &positions));
  }
  return {};
}

}  // namespace tutti
