// Connected pointwise nodes that compute elements of one shape become a node with a scalar body.
// Operands may broadcast; a node of a smaller shape stays outside, as its results would be computed
// again for every element.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/match.h"
#include "compiler/node_order.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxInputs = 16;
constexpr std::size_t kMaxNodes = 64;

struct Region {
  std::vector<Node*> nodes;  // in execution order
  Shape shape;
};

class RegionFinder {
 public:
  explicit RegionFinder(const Graph& graph) : graph_(graph) {}

  std::vector<Region> find() {
    for (const auto& owned : graph_.nodes()) {
      Node* node = owned.get();
      if (!may_fuse(*node)) continue;
      int joined = -1;
      for (const Value* input : node->inputs()) {
        const int region = region_of(input);
        if (region < 0 || region == joined) continue;
        if (joined < 0) {
          if (can_join(*node, region)) joined = region;
        } else if (can_merge(joined, region, *node)) {
          merge(joined, region);
        }
      }
      if (joined < 0) {
        joined = static_cast<int>(regions_.size());
        regions_.push_back({{}, node->output()->shape()});
      }
      regions_[static_cast<std::size_t>(joined)].nodes.push_back(node);
      of_node_[node] = joined;
    }
    merge_readers();
    return std::move(regions_);
  }

 private:
  static bool may_fuse(const Node& node) {
    if (!node.op().is_pointwise || node.has_attribute("body") || node.outputs().size() != 1) {
      return false;
    }
    return std::all_of(node.inputs().begin(), node.inputs().end(), [](const Value* input) {
      return input != nullptr && input->dtype() != DType::kString;
    });
  }

  int region_of(const Value* value) const {
    const auto it = value == nullptr ? of_node_.end() : of_node_.find(value->producer());
    return it == of_node_.end() ? -1 : it->second;
  }

  std::size_t count_inputs(int a, int b, const Node& node) const {
    std::set<const Value*> inputs;
    const auto collect = [&](const Node& member) {
      for (const Value* input : member.inputs()) {
        const int region = region_of(input);
        if (region < 0 || (region != a && region != b)) inputs.insert(input);
      }
    };
    for (const int region : {a, b}) {
      if (region < 0) continue;
      for (const Node* member : regions_[static_cast<std::size_t>(region)].nodes) collect(*member);
    }
    collect(node);
    return inputs.size();
  }

  bool can_join(const Node& node, int region) const {
    const Region& found = regions_[static_cast<std::size_t>(region)];
    return node.output()->shape() == found.shape && found.nodes.size() < kMaxNodes &&
           count_inputs(region, -1, node) <= kMaxInputs && !reaches(region, node, {region});
  }

  bool can_merge(int a, int b, const Node& node) const {
    const Region& first = regions_[static_cast<std::size_t>(a)];
    const Region& second = regions_[static_cast<std::size_t>(b)];
    if (first.shape != second.shape || first.nodes.size() + second.nodes.size() >= kMaxNodes) {
      return false;
    }
    if (count_inputs(a, b, node) > kMaxInputs) return false;
    // No way from one to the other, nor to the node, through anything outside.
    return !reaches_region(a, b) && !reaches_region(b, a) && !reaches(a, node, {a, b}) &&
           !reaches(b, node, {a, b});
  }

  // A path from a region to an operand of `node` through something outside of `inside`.
  bool reaches(int region, const Node& node, const std::set<int>& inside) const {
    std::vector<const Node*> start;
    for (const Value* input : node.inputs()) {
      if (input->producer() != nullptr && !inside.contains(region_of(input))) {
        start.push_back(input->producer());
      }
    }
    return depends_on(start, region);
  }

  bool reaches_region(int from, int to) const {
    std::vector<const Node*> start;
    for (const Node* node : regions_[static_cast<std::size_t>(to)].nodes) {
      for (const Value* input : node->inputs()) {
        const int region = region_of(input);
        if (input->producer() == nullptr || region == from || region == to) continue;
        start.push_back(input->producer());
      }
    }
    return depends_on(start, from);
  }

  // Whether any of the nodes needs `region` first; a fused region needs what any member needs.
  bool depends_on(std::vector<const Node*> pending, int region) const {
    std::set<const Node*> seen;
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      if (!seen.insert(node).second) continue;
      const auto it = of_node_.find(node);
      if (it != of_node_.end()) {
        if (it->second == region) return true;
        for (const Node* member : regions_[static_cast<std::size_t>(it->second)].nodes) {
          if (!seen.contains(member)) pending.push_back(member);
        }
      }
      for (const Value* input : node->inputs()) {
        if (input != nullptr && input->producer() != nullptr) pending.push_back(input->producer());
      }
    }
    return false;
  }

  // Independent regions that read the same large operands read them once together.
  void merge_readers() {
    constexpr std::size_t kNear = 16;  // regions; further apart, operands leave the cache anyway
    for (std::size_t a = 0; a < regions_.size(); ++a) {
      for (std::size_t b = a + 1; b < std::min(regions_.size(), a + kNear); ++b) {
        if (regions_[a].nodes.empty() || regions_[b].nodes.empty()) continue;
        if (shared_operands(regions_[a], regions_[b]) < 2) continue;
        const int first = static_cast<int>(a);
        const int second = static_cast<int>(b);
        if (can_merge(first, second, *regions_[b].nodes.back())) merge(first, second);
      }
    }
  }

  // Operands of the regions' own shape that both read.
  std::size_t shared_operands(const Region& a, const Region& b) const {
    if (a.shape != b.shape) return 0;
    std::set<const Value*> read;
    for (const Node* node : a.nodes) read.insert(node->inputs().begin(), node->inputs().end());
    std::set<const Value*> shared;
    for (const Node* node : b.nodes) {
      for (const Value* input : node->inputs()) {
        if (read.contains(input) && input->shape() == a.shape) shared.insert(input);
      }
    }
    return shared.size();
  }

  void merge(int into, int from) {
    Region& target = regions_[static_cast<std::size_t>(into)];
    Region& source = regions_[static_cast<std::size_t>(from)];
    for (Node* node : source.nodes) of_node_[node] = into;
    target.nodes.insert(target.nodes.end(), source.nodes.begin(), source.nodes.end());
    source.nodes.clear();
  }

  const Graph& graph_;
  std::vector<Region> regions_;
  std::map<const Node*, int> of_node_;
};

// Builds the fused node in front of the last member, and moves what must come after it.
class RegionBuilder {
 public:
  RegionBuilder(Graph& graph, const CompileOptions& options) : graph_(graph), options_(options) {}

  Status build(const std::vector<Node*>& members) {
    const std::set<const Node*> inside(members.begin(), members.end());
    auto body = std::make_shared<Graph>();
    std::vector<Value*> operands;
    std::vector<Value*> results;
    std::map<const Value*, Value*> scalars;
    const auto scalar = [&](Value* value) {
      if (const auto it = scalars.find(value); it != scalars.end()) return it->second;
      Value* twin = nullptr;
      if (value->is_constant() && value->constant().element_count() == 1) {
        twin = body->add_constant("", value->constant().reshaped({}));
      } else {
        operands.push_back(value);
        twin = body->add_input("", {value->dtype(), {}});
      }
      scalars.emplace(value, twin);
      return twin;
    };
    for (Node* node : members) {
      std::vector<Value*> inputs;
      for (Value* input : node->inputs()) inputs.push_back(scalar(input));
      Node* twin = body->add_node(node->op(), node->name(), inputs, node->attributes(),
                                  {{node->output()->dtype(), {}}});
      scalars.emplace(node->output(), twin->output());
      const auto& users = node->output()->users();
      const bool is_result = is_graph_output(graph_, node->output()) ||
                             std::any_of(users.begin(), users.end(),
                                         [&](const Node* user) { return !inside.contains(user); });
      if (is_result) {
        results.push_back(node->output());
        body->add_output(twin->output());
      }
    }
    GraphBuilder b(&graph_, options_.registry);
    b.set_insertion_point(members.back());
    b.set_name(members.back()->name());
    const auto outputs =
        b.ops("Pointwise", operands, {{"body", std::shared_ptr<const Graph>(body)}},
              static_cast<int>(results.size()));
    TUTTI_RETURN_IF_ERROR(b.status());
    for (std::size_t i = 0; i < results.size(); ++i) {
      outputs[i]->set_symbolic(results[i]->symbolic());
      replace_value(graph_, results[i], outputs[i]);
    }
    for (auto it = members.rbegin(); it != members.rend(); ++it) graph_.erase(*it);
    return {};
  }

 private:
  Graph& graph_;
  const CompileOptions& options_;
};

}  // namespace

Status fuse_pointwise(Graph& graph, const CompileOptions& options) {
  if (!options.fuse) return {};
  const std::vector<Region> regions = RegionFinder(graph).find();
  RegionBuilder builder(graph, options);
  std::map<const Node*, int> position;
  for (const auto& node : graph.nodes())
    position.emplace(node.get(), static_cast<int>(position.size()));
  for (const Region& region : regions) {
    if (region.nodes.size() < 2) continue;
    std::vector<Node*> members = region.nodes;
    std::sort(members.begin(), members.end(),
              [&](const Node* a, const Node* b) { return position.at(a) < position.at(b); });
    TUTTI_RETURN_IF_ERROR(builder.build(members));
  }
  restore_order(graph);
  return graph.verify();
}

}  // namespace tutti
