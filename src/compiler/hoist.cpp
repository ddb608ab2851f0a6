#include "compiler/hoist.h"

#include <algorithm>
#include <set>

#include "compiler/cost.h"
#include "graph/rank_constant.h"

namespace tutti {
namespace {

// What a value depends on, over all paths.
struct Dependence {
  bool varies = false;     // an input that is not invariant
  bool has_input = false;  // any input
  bool has_work = false;   // a product, attention, norm, .., or an exchange
  bool computes = false;   // any arithmetic, or a slice by rank
};

bool moves_only(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Reshape", "Transpose", "Expand", "Tile", "Fill", "Sizes", "Slice", "Split", "Concat"};
  return kTypes.contains(node.type());
}

std::map<const Value*, Dependence> find_dependences(const Graph& graph,
                                                    const std::set<std::string>& invariant) {
  std::map<const Value*, Dependence> found;
  for (const Value* input : graph.inputs()) {
    found[input] = {!invariant.contains(input->name()), true, false, false};
  }
  for (const auto& node : graph.nodes()) {
    Dependence all;
    for (const Value* input : node->inputs()) {
      if (input == nullptr) continue;
      const Dependence& one = found[input];
      all.varies |= one.varies;
      all.has_input |= one.has_input;
      all.has_work |= one.has_work;
      all.computes |= one.computes;
    }
    all.has_work |= is_real_work(*node) || node->op().is_exchange;
    all.computes |= !moves_only(*node) && !cuts_constant(*node);
    for (const Value* output : node->outputs()) found[output] = all;
  }
  return found;
}

// Marks everything that `value` is made from.
void mark_cone(const Value* value, std::set<const Node*>* cone) {
  std::vector<const Node*> pending;
  if (value->producer() != nullptr) pending.push_back(value->producer());
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!cone->insert(node).second) continue;
    for (const Value* input : node->inputs()) {
      if (input != nullptr && input->producer() != nullptr) pending.push_back(input->producer());
    }
  }
}

void remove_unused_inputs(Graph& graph) {
  for (Value* input : std::vector<Value*>(graph.inputs())) {
    const bool is_output =
        std::find(graph.outputs().begin(), graph.outputs().end(), input) != graph.outputs().end();
    if (input->users().empty() && !is_output) graph.remove_input(input);
  }
}

}  // namespace

std::set<const Value*> varying_values(const Graph& graph,
                                      const std::vector<std::string>& invariant) {
  std::set<const Value*> varying;
  for (const Value* input : graph.inputs()) {
    if (std::find(invariant.begin(), invariant.end(), input->name()) == invariant.end()) {
      varying.insert(input);
    }
  }
  for (const auto& node : graph.nodes()) {
    const bool varies = std::any_of(node->inputs().begin(), node->inputs().end(),
                                    [&](const Value* input) { return varying.contains(input); });
    if (varies) varying.insert(node->outputs().begin(), node->outputs().end());
  }
  return varying;
}

Result<Hoisted> hoist(const Graph& graph, const std::vector<std::string>& invariant) {
  Hoisted out;
  out.main = graph.clone();
  const auto dependences =
      find_dependences(graph, std::set<std::string>(invariant.begin(), invariant.end()));
  const std::set<const Value*> graph_outputs(graph.outputs().begin(), graph.outputs().end());

  // Values on the border: made from what stays, used by what does not.
  std::set<const Node*> hoisted;
  for (const auto& node : graph.nodes()) {
    for (const Value* value : node->outputs()) {
      const Dependence& dependence = dependences.at(value);
      if (dependence.varies) continue;
      const bool is_worth_it =
          dependence.has_input ? dependence.has_work : dependence.has_work || dependence.computes;
      if (!is_worth_it) continue;
      const bool is_on_border =
          graph_outputs.contains(value) ||
          std::any_of(value->users().begin(), value->users().end(),
                      [&](const Node* user) { return dependences.at(user->output()).varies; });
      if (is_on_border) mark_cone(value, &hoisted);
    }
  }
  std::vector<std::string> border;
  for (const auto& node : graph.nodes()) {
    // Pieces of constants cost nothing: both graphs have them.
    if (!hoisted.contains(node.get()) || cuts_constant(*node)) continue;
    for (const Value* value : node->outputs()) {
      const bool is_used_outside =
          graph_outputs.contains(value) ||
          std::any_of(value->users().begin(), value->users().end(),
                      [&](const Node* user) { return !hoisted.contains(user); });
      if (is_used_outside) border.push_back(value->name());
    }
  }
  if (border.empty()) return out;

  out.prologue = graph.clone();
  out.prologue->name = graph.name.empty() ? "prologue" : graph.name + "_prologue";
  out.prologue->clear_outputs();
  out.prologue->output_names = border;
  for (const std::string& name : border) {
    out.prologue->add_output(out.prologue->find_value(name));
    Value* old = out.main->find_value(name);
    out.main->rename(old, name + ".hoisted");
    Value* input = out.main->add_input(name, old->type());
    input->set_symbolic(old->symbolic());
    out.main->replace_uses(old, input);
  }
  out.prologue->remove_dead();
  out.main->remove_dead();
  remove_unused_inputs(*out.prologue);
  remove_unused_inputs(*out.main);
  TUTTI_RETURN_IF_ERROR(out.prologue->verify());
  TUTTI_RETURN_IF_ERROR(out.main->verify());
  return out;
}

}  // namespace tutti
