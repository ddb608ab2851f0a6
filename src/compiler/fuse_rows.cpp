// What stands between two products: a norm, pointwise nodes around it, and movements that stay
// inside a row, become one node, so that a backend may read and write every row once. Rows are all
// dimensions in front of those that the norm normalises; without a norm, all but the last one.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/match.h"
#include "compiler/node_order.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxInputs = 16;
constexpr std::size_t kMaxOutputs = 4;
constexpr std::size_t kMaxNodes = 48;
constexpr std::int64_t kMaxRow = 16384;

bool is_norm(const Node& node) {
  return node.type() == "LayerNormalization" || node.type() == "RMSNormalization";
}

struct Group {
  Shape lead;
  const Node* norm = nullptr;
  std::set<const Node*> nodes = {};

  bool holds(const Value* value) const {
    return value != nullptr && value->producer() != nullptr && nodes.contains(value->producer());
  }
};

// Something outside of the group reads it.
bool leaves(const Graph& graph, const Value* output, const Group& group) {
  const auto& users = output->users();
  return is_graph_output(graph, output) ||
         std::any_of(users.begin(), users.end(),
                     [&](const Node* user) { return !group.nodes.contains(user); });
}

// Elements of a row of a value with these leading dimensions; 0 where it has others, or sizes that
// are only known later.
std::int64_t row_length(const Value* value, const Shape& lead) {
  const Shape& shape = value->shape();
  if (shape.size() < lead.size() || !std::equal(lead.begin(), lead.end(), shape.begin())) return 0;
  std::int64_t length = 1;
  for (std::size_t d = lead.size(); d < shape.size(); ++d) {
    if (!shape[d].is_constant() || shape[d].constant() > kMaxRow) return 0;
    length *= shape[d].constant();
    if (length > 2 * kMaxRow) return 0;
  }
  return length;
}

bool moves_inside_rows(const Node& node, const Shape& lead) {
  const auto first = static_cast<std::int64_t>(lead.size());
  const std::string& type = node.type();
  if (std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Value* input) {
        return input == nullptr || row_length(input, lead) == 0;
      })) {
    return false;
  }
  if (type == "Reshape") return true;
  if (type == "Concat" || type == "Split") return node.attr_int("axis") >= first;
  if (type == "Slice") {
    const auto axes = node.attr_ints("axes");
    return std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return axis >= first; });
  }
  if (type == "Transpose") {
    const auto perm = permutation_of(node);
    for (std::int64_t d = 0; d < first; ++d) {
      if (perm[static_cast<std::size_t>(d)] != d) return false;
    }
    return true;
  }
  return false;
}

bool is_row_work(const Node& node, const Shape& lead) {
  const bool fits = std::all_of(node.outputs().begin(), node.outputs().end(),
                                [&](const Value* output) { return row_length(output, lead) > 0; });
  return fits && (node.op().is_pointwise || moves_inside_rows(node, lead));
}

class GroupFinder {
 public:
  explicit GroupFinder(const Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes()) {
      position_.emplace(node.get(), static_cast<int>(order_.size()));
      order_.push_back(node.get());
    }
  }

  std::vector<Group> find() {
    for (const Node* node : order_) {
      if (!is_norm(*node)) continue;
      const Shape& shape = node->input(0)->shape();
      const auto axis = static_cast<std::ptrdiff_t>(node->attr_int("axis"));
      add({Shape(shape.begin(), shape.begin() + axis), node});
    }
    for (const Node* node : order_) {
      if (!node->op().is_pointwise || node->output()->rank() == 0) continue;
      const Shape& shape = node->output()->shape();
      const Shape lead(shape.begin(), shape.end() - 1);
      const bool reads_moved =
          std::any_of(node->inputs().begin(), node->inputs().end(), [&](const Value* input) {
            const Node* producer = input->producer();
            return producer != nullptr && producer->type() != "Reshape" &&
                   moves_inside_rows(*producer, lead);
          });
      if (reads_moved) add({lead, nullptr, {node}});
    }
    return std::move(groups_);
  }

 private:
  // Grows a group from its first node and keeps it where it is worth something.
  void add(Group group) {
    if (group.norm != nullptr) group.nodes = {group.norm};
    const Node* first = *group.nodes.begin();
    if (group_of_.contains(first)) return;
    if (group.norm != nullptr && row_length(first->output(), group.lead) == 0) return;
    grow_backwards(&group);
    const Group small = group;
    grow_forwards(&group);
    if (group.norm == nullptr) grow_backwards(&group);
    for (std::size_t size = 0; size != group.nodes.size();) {
      size = group.nodes.size();
      trim(&group);
      drop_other_lengths(&group);
    }
    if (!is_whole(group)) group = small;
    if (group.nodes.size() < 2 || !is_whole(group)) return;
    for (const Node* node : group.nodes) group_of_.emplace(node, groups_.size());
    groups_.push_back(std::move(group));
  }

  bool may_join(const Node& node, const Group& group) const {
    return !group_of_.contains(&node) && !group.nodes.contains(&node) &&
           group.nodes.size() < kMaxNodes && is_row_work(node, group.lead);
  }

  // What only the group reads. In front of a norm only pointwise nodes, which may have other
  // readers.
  void grow_backwards(Group* group) const {
    const auto adds = [&](const Value* input) {
      const Node* producer = input == nullptr ? nullptr : input->producer();
      if (producer == nullptr || !may_join(*producer, *group)) return false;
      if (group->norm == nullptr) {
        return is_read_inside(*producer, *group) && stays_acyclic(*producer, *group);
      }
      return producer->op().is_pointwise && input->shape() == group->norm->input(0)->shape() &&
             stays_acyclic(*producer, *group);
    };
    // A node joins once all of its readers have, so every round may let others in.
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : in_order(*group)) {
        for (const Value* input : node->inputs()) {
          if (!adds(input)) continue;
          group->nodes.insert(input->producer());
          changed = true;
        }
      }
    }
  }

  std::vector<const Node*> in_order(const Group& group) const {
    std::vector<const Node*> members(group.nodes.begin(), group.nodes.end());
    std::sort(members.begin(), members.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
    return members;
  }

  bool is_read_inside(const Node& node, const Group& group) const {
    return std::none_of(node.outputs().begin(), node.outputs().end(),
                        [&](const Value* output) { return leaves(graph_, output, group); });
  }

  void grow_forwards(Group* group) const {
    int last = 0;
    for (const Node* node : group->nodes) last = std::max(last, position_.at(node));
    const auto reads_group = [&](const Node& node) {
      return std::any_of(node.inputs().begin(), node.inputs().end(),
                         [&](const Value* input) { return group->holds(input); });
    };
    for (auto i = static_cast<std::size_t>(last) + 1; i < order_.size(); ++i) {
      const Node& node = *order_[i];
      if (reads_group(node) && may_join(node, *group) && stays_acyclic(node, *group)) {
        group->nodes.insert(&node);
      }
    }
  }

  // No way from the group through anything outside back into it, with `node` a member. Another
  // group needs what any of its members needs.
  bool stays_acyclic(const Node& node, const Group& group) const {
    const auto is_inside = [&](const Node* other) {
      return other == &node || group.nodes.contains(other);
    };
    int first = position_.at(&node);
    for (const Node* member : group.nodes) first = std::min(first, position_.at(member));
    std::vector<const Node*> pending;
    std::set<const Node*> seen;
    const auto reach = [&](const Node* outside) {
      const auto other = group_of_.find(outside);
      // What stands before all members needs none of them.
      if (other == group_of_.end() && position_.at(outside) < first) return;
      if (seen.insert(outside).second) pending.push_back(outside);
      if (other == group_of_.end()) return;
      for (const Node* member : groups_[other->second].nodes) {
        if (seen.insert(member).second) pending.push_back(member);
      }
    };
    const auto reach_inputs = [&](const Node& reader) {
      for (const Value* input : reader.inputs()) {
        const Node* producer = input == nullptr ? nullptr : input->producer();
        if (producer != nullptr && !is_inside(producer)) reach(producer);
      }
    };
    reach_inputs(node);
    for (const Node* member : group.nodes) reach_inputs(*member);
    while (!pending.empty()) {
      const Node* outside = pending.back();
      pending.pop_back();
      for (const Value* input : outside->inputs()) {
        if (input != nullptr && input->producer() != nullptr && is_inside(input->producer())) {
          return false;
        }
      }
      reach_inputs(*outside);
    }
    return true;
  }

  // Movements at the end cost nothing outside (views) or belong to others.
  void trim(Group* group) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : group->nodes) {
        if (node->op().is_pointwise || is_norm(*node) || node->type() == "Concat") continue;
        const bool is_read =
            std::any_of(node->outputs().begin(), node->outputs().end(), [&](const Value* output) {
              const auto& users = output->users();
              return std::any_of(users.begin(), users.end(),
                                 [&](const Node* user) { return group->nodes.contains(user); });
            });
        if (is_read) continue;
        group->nodes.erase(node);
        changed = true;
        break;
      }
    }
  }

  // A result whose rows have another length than the norm's is left outside, and with it all that
  // reads it.
  void drop_other_lengths(Group* group) const {
    if (group->norm == nullptr) return;
    const std::int64_t length = row_length(group->norm->output(), group->lead);
    const auto is_other = [&](const Node* node) {
      return std::any_of(node->outputs().begin(), node->outputs().end(), [&](const Value* output) {
        return leaves(graph_, output, *group) && row_length(output, group->lead) != length;
      });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node* node : in_order(*group)) {
        if (node == group->norm || !is_other(node)) continue;
        drop(*node, group);
        changed = true;
        break;
      }
    }
  }

  void drop(const Node& node, Group* group) const {
    if (group->nodes.erase(&node) == 0) return;
    for (const Value* output : node.outputs()) {
      for (const Node* user : output->users()) drop(*user, group);
    }
  }

  // Rows of one length go in and come out, through few operands.
  bool is_whole(const Group& group) const {
    std::set<const Value*> inputs;
    std::set<std::int64_t> lengths;
    if (group.norm != nullptr) lengths.insert(row_length(group.norm->input(0), group.lead));
    std::size_t outputs = 0;
    for (const Node* node : group.nodes) {
      for (const Value* input : node->inputs()) {
        if (input != nullptr && !group.holds(input)) inputs.insert(input);
      }
      for (const Value* output : node->outputs()) {
        if (!leaves(graph_, output, group)) continue;
        ++outputs;
        lengths.insert(row_length(output, group.lead));
      }
    }
    return lengths.size() == 1 && inputs.size() <= kMaxInputs && outputs >= 1 &&
           outputs <= kMaxOutputs;
  }

  const Graph& graph_;
  std::vector<const Node*> order_;
  std::map<const Node*, int> position_;
  std::vector<Group> groups_;
  std::map<const Node*, std::size_t> group_of_;
};

// Readers outside get views of their own, of what the group gives: two of its results are never the
// same memory.
void part_views(Graph& graph, const Group& group, const std::vector<Node*>& members,
                GraphBuilder& b) {
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    const Node& node = **it;
    if (!node.op().is_view || !leaves(graph, node.output(), group)) continue;
    b.set_name(node.name());
    Value* view = b.op(node.type(), node.inputs(), node.attributes());
    if (view == nullptr) return;
    const std::vector<Node*> users = node.output()->users();
    for (Node* user : users) {
      if (group.nodes.contains(user)) continue;
      for (std::size_t i = 0; i < user->inputs().size(); ++i) {
        if (user->input(i) == node.output()) user->set_input(i, view);
      }
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      if (graph.outputs()[i] == node.output()) graph.set_output(i, view);
    }
  }
}

// Puts the fused node in front of the last member.
Status build(Graph& graph, const CompileOptions& options, const Group& group) {
  std::vector<Node*> members;
  for (const auto& node : graph.nodes()) {
    if (group.nodes.contains(node.get())) members.push_back(node.get());
  }
  GraphBuilder b(&graph, options.registry);
  b.set_insertion_point(members.back());
  part_views(graph, group, members, b);
  auto body = std::make_shared<Graph>();
  std::vector<Value*> operands;
  std::vector<Value*> results;
  std::map<const Value*, Value*> twins;
  const auto twin_of = [&](Value* value) -> Value* {
    if (value == nullptr) return nullptr;
    const auto [found, is_new] = twins.try_emplace(value, nullptr);
    if (is_new) {
      operands.push_back(value);
      found->second = body->add_input("", value->type());
    }
    return found->second;
  };
  for (Node* node : members) {
    std::vector<Value*> inputs;
    std::vector<TensorType> types;
    for (Value* input : node->inputs()) inputs.push_back(twin_of(input));
    for (const Value* output : node->outputs()) types.push_back(output->type());
    const Node* twin = body->add_node(node->op(), node->name(), inputs, node->attributes(), types);
    for (std::size_t i = 0; i < types.size(); ++i) {
      Value* output = node->output(i);
      twins[output] = twin->output(i);
      if (leaves(graph, output, group)) {
        results.push_back(output);
        body->add_output(twin->output(i));
      }
    }
  }
  b.set_name(members.back()->name());
  const auto outputs = b.ops("Fused", operands, {{"body", std::shared_ptr<const Graph>(body)}},
                             static_cast<int>(results.size()));
  TUTTI_RETURN_IF_ERROR(b.status());
  for (std::size_t i = 0; i < results.size(); ++i) replace_value(graph, results[i], outputs[i]);
  for (auto it = members.rbegin(); it != members.rend(); ++it) graph.erase(*it);
  return {};
}

}  // namespace

Status fuse_rows(Graph& graph, const CompileOptions& options) {
  if (!options.fuse) return {};
  for (const Group& group : GroupFinder(graph).find()) {
    TUTTI_RETURN_IF_ERROR(build(graph, options, group));
  }
  restore_order(graph);
  return graph.verify();
}

}  // namespace tutti
