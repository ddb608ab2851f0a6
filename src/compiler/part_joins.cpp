// Joined sequences on their way to an attention, and from one to where they are cut apart again.
//
// Text and video joined in front of a projection are one tensor with one split over the ranks,
// while before and after they are two with a split each; every join and cut would be an exchange.
// The projection works on each token alone, so it may as well work on each sequence: the join moves
// down to the attention, and from the attention's result each sequence goes its own way.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/tables.h"

namespace tutti {
namespace {

// A dimension and how its size is put together.
struct Join {
  std::size_t dim = 0;
  std::vector<Dim> sizes;
};

std::vector<Node*> nodes_in_order(const Graph& graph) {
  std::vector<Node*> order;
  for (const auto& node : graph.nodes()) order.push_back(node.get());
  return order;
}

// Along `dim` the node cuts exactly where the join is; nullopt: it does not cut there at all.
std::optional<bool> cuts_at_joints(const Node& node, const Join& join) {
  const auto dim = static_cast<std::int64_t>(join.dim);
  if (node.type() == "Split") {
    if (node.attr_int("axis") != dim) return std::nullopt;
    return node.attr_dims("sizes") == join.sizes;
  }
  if (node.type() != "Slice") return std::nullopt;
  const auto axes = node.attr_ints("axes");
  if (std::find(axes.begin(), axes.end(), dim) == axes.end()) return std::nullopt;
  if (axes.size() != 1 || node.attr_ints("steps")[0] != 1) return false;
  Dim start = 0;
  for (const Dim& size : join.sizes) {
    if (node.attr_dims("starts")[0] == start) return node.attr_dims("ends")[0] == start + size;
    start = start + size;
  }
  return false;
}

// The parallel factor that alone makes up this dimension; nullopt where there is none.
std::optional<int> own_factor(const FactorMap& map, const DimFactors& operand, std::size_t dim) {
  if (dim >= operand.size() || operand[dim].size() != 1) return std::nullopt;
  const int factor = operand[dim][0];
  if (map.factors[static_cast<std::size_t>(factor)].role != FactorRole::kParallel) {
    return std::nullopt;
  }
  return factor;
}

// Where an operand holds the factor: a dimension of its own, none (nullopt), or mixed with others.
struct Holding {
  std::optional<std::size_t> dim;
  bool is_mixed = false;
};

Holding holding(const DimFactors& operand, int factor) {
  Holding held;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (std::find(operand[d].begin(), operand[d].end(), factor) == operand[d].end()) continue;
    if (operand[d].size() != 1 || held.dim) held.is_mixed = true;
    held.dim = d;
  }
  return held;
}

// What a joined value reaches through nodes that work on each position alone, up to attentions and
// cuts. Only a region that ends nowhere else may be parted.
class JoinedRegion {
 public:
  JoinedRegion(const Graph& graph, Value* start, Join join, Tables* tables) : graph_(graph) {
    is_closed_ = add(start, std::move(join));
    while (is_closed_ && !pending_.empty()) {
      Value* value = pending_.back();
      pending_.pop_back();
      for (Node* user : value->users()) is_closed_ = is_closed_ && follow(value, user);
    }
    // An operand that the node shares the joint with must be joined alike, or a table.
    for (const auto& [value, dim] : other_operands_) {
      const auto known = joins_.find(value);
      is_closed_ = is_closed_ &&
                   (known == joins_.end() ? tables->contains(value) : known->second.dim == dim);
    }
  }

  bool is_worth_parting() const { return is_closed_ && has_work_ && has_end_; }
  const std::vector<Value*>& values() const { return values_; }  // as they were found
  const Join& join_of(const Value* value) const { return joins_.at(value); }
  const std::set<const Node*>& nodes() const { return nodes_; }

 private:
  bool add(Value* value, Join join) {
    if (is_graph_output(graph_, value)) return false;
    const auto [it, is_new] = joins_.emplace(value, join);
    if (!is_new) return it->second.dim == join.dim;
    pending_.push_back(value);
    values_.push_back(value);
    return true;
  }

  bool follow(Value* value, Node* user) {
    const Join join = joins_.at(value);
    if (user->type() == "Attention") {
      has_end_ = true;
      const auto operands = user->inputs().begin() + 3;
      const bool is_mask = std::find(operands, user->inputs().end(), value) != user->inputs().end();
      return !is_mask && join.dim == static_cast<std::size_t>(token_dimension(*user));
    }
    if (const auto at_joints = cuts_at_joints(*user, join)) {
      has_end_ = true;
      return *at_joints;
    }
    if (!nodes_.insert(user).second) return true;
    return work_on_rows(value, user, join);
  }

  bool work_on_rows(const Value* value, Node* user, const Join& join) {
    if (user->op().factors == nullptr) return false;
    const FactorMap map = factors_of(*user);
    std::optional<int> factor;
    for (std::size_t i = 0; i < user->inputs().size() && !factor; ++i) {
      if (user->input(i) == value) factor = own_factor(map, map.inputs[i], join.dim);
    }
    if (!factor) return false;
    for (std::size_t i = 0; i < user->inputs().size(); ++i) {
      if (user->input(i) == nullptr) continue;
      const Holding held = holding(map.inputs[i], *factor);
      if (held.is_mixed) return false;
      if (held.dim) other_operands_.emplace_back(user->input(i), *held.dim);
    }
    has_work_ = has_work_ || is_projection(*user);
    for (std::size_t o = 0; o < user->outputs().size(); ++o) {
      const Holding held = holding(map.outputs[o], *factor);
      if (!held.dim || held.is_mixed || !add(user->output(o), {*held.dim, join.sizes}))
        return false;
    }
    return true;
  }

  const Graph& graph_;
  std::map<const Value*, Join> joins_;
  std::vector<Value*> values_;
  std::set<const Node*> nodes_;
  std::vector<Value*> pending_;
  std::vector<std::pair<Value*, std::size_t>> other_operands_;
  bool is_closed_ = false;
  bool has_work_ = false;
  bool has_end_ = false;
};

// Slices of a node's only output at the joints, right behind it.
std::vector<Value*> cut_behind(GraphBuilder& b, const Node& node, const Join& join) {
  const auto order = nodes_in_order(b.graph());
  const auto next = std::find(order.begin(), order.end(), &node) + 1;
  b.set_insertion_point(next == order.end() ? nullptr : *next);
  b.set_name(node.name());
  std::vector<Value*> pieces;
  Dim start = 0;
  for (const Dim& size : join.sizes) {
    const auto dim = static_cast<std::int64_t>(join.dim);
    pieces.push_back(b.slice(node.output(), {dim}, {start}, {start + size}));
    start = start + size;
  }
  return pieces;
}

// Makes the nodes of a region once for each sequence.
class Parting {
 public:
  Parting(GraphBuilder* b, const JoinedRegion& region) : b_(b), region_(region) {}

  // `pieces` of the region's first value.
  void run(const Value* start, std::vector<Value*> pieces) {
    pieces_[start] = std::move(pieces);
    for (Node* node : nodes_in_order(b_->graph())) {
      if (!b_->status().ok()) return;
      if (region_.nodes().contains(node)) copy(node);
    }
    for (Value* value : region_.values()) {
      if (b_->status().ok() && value != start) rejoin(value, region_.join_of(value));
    }
  }

 private:
  void copy(Node* node) {
    b_->set_insertion_point(node);
    b_->set_name(node->name());
    const Join& join = region_.join_of(node->output(0));
    for (std::size_t part = 0; part < join.sizes.size(); ++part) {
      std::vector<Value*> inputs = node->inputs();
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = operand(node, i, join, part);
      const auto made = b_->ops(node->type(), std::move(inputs), attributes(*node, join, part),
                                static_cast<int>(node->outputs().size()));
      if (!b_->status().ok()) return;
      for (std::size_t o = 0; o < made.size(); ++o) pieces_[node->output(o)].push_back(made[o]);
    }
  }

  Value* operand(const Node* node, std::size_t i, const Join& join, std::size_t part) {
    Value* input = node->input(i);
    if (input == nullptr) return nullptr;
    if (const auto known = pieces_.find(input); known != pieces_.end()) return known->second[part];
    const FactorMap map = factors_of(*node);
    const int factor = map.outputs[0][join.dim][0];
    const Holding held = holding(map.inputs[i], factor);
    if (!held.dim) return input;
    Dim start = 0;
    for (std::size_t before = 0; before < part; ++before) start = start + join.sizes[before];
    return b_->slice(input, {static_cast<std::int64_t>(*held.dim)}, {start},
                     {start + join.sizes[part]});
  }

  // Attributes that spell out the output's shape spell out that of the piece.
  static AttributeMap attributes(const Node& node, const Join& join, std::size_t part) {
    AttributeMap attributes = node.attributes();
    const Shape& shape = node.output()->shape();
    for (auto& [name, attribute] : attributes) {
      Shape* dims = std::get_if<Shape>(&attribute);
      if (dims != nullptr && *dims == shape) (*dims)[join.dim] = join.sizes[part];
    }
    return attributes;
  }

  // What lies outside the region gets the pieces side by side.
  void rejoin(Value* value, const Join& join) {
    const std::vector<Node*> users = value->users();
    for (Node* user : users) {
      if (region_.nodes().contains(user)) continue;
      b_->set_insertion_point(user);
      b_->set_name(user->name());
      Value* joined =
          b_->op("Concat", pieces_.at(value), {{"axis", static_cast<std::int64_t>(join.dim)}});
      if (!b_->status().ok()) return;
      for (std::size_t i = 0; i < user->inputs().size(); ++i) {
        if (user->input(i) == value) user->set_input(i, joined);
      }
    }
  }

  GraphBuilder* b_;
  const JoinedRegion& region_;
  std::map<const Value*, std::vector<Value*>> pieces_;
};

// The join on the way to an attention's queries, which its result has too.
std::optional<Join> join_of_queries(const Node& attention) {
  constexpr int kMaxSteps = 8;
  const auto tokens = static_cast<std::size_t>(token_dimension(attention));
  const Value* value = attention.input(0);
  std::size_t dim = tokens;
  for (int step = 0; step < kMaxSteps && value->producer() != nullptr; ++step) {
    const Node& node = *value->producer();
    if (node.type() == "Concat" && node.attr_int("axis") == static_cast<std::int64_t>(dim)) {
      Join join{tokens, {}};
      for (const Value* input : node.inputs()) join.sizes.push_back(input->shape()[dim]);
      return join;
    }
    if (is_projection(node) || node.op().factors == nullptr || node.input(0) == nullptr) break;
    const FactorMap map = factors_of(node);
    const auto factor = own_factor(map, map.outputs[0], dim);
    const Holding held = factor ? holding(map.inputs[0], *factor) : Holding();
    if (!held.dim || held.is_mixed) break;
    value = node.input(0);
    dim = *held.dim;
  }
  return std::nullopt;
}

bool shares_tokens(const CompileOptions& options) {
  for (int axis = 0; axis < static_cast<int>(options.mesh.axes().size()); ++axis) {
    const auto strategy = strategy_of(options, axis);
    if (options.mesh.size(axis) > 1 && strategy.ok() && *strategy == "ulysses") return true;
  }
  return false;
}

// A join that takes whole tensors alone costs nothing.
bool joins_features(const Node& node, Tables* tables) {
  return node.type() == "Concat" &&
         std::none_of(node.inputs().begin(), node.inputs().end(),
                      [&](const Value* input) { return tables->contains(input); });
}

// The join of what `node` makes; nullopt where it makes none.
std::optional<Join> join_made_by(const Node& node, Tables* tables) {
  if (node.type() == "Attention") return join_of_queries(node);
  if (!joins_features(node, tables)) return std::nullopt;
  Join join{static_cast<std::size_t>(node.attr_int("axis")), {}};
  for (const Value* input : node.inputs()) join.sizes.push_back(input->shape()[join.dim]);
  return join;
}

}  // namespace

Status part_joins(Graph& graph, const CompileOptions& options) {
  if (!shares_tokens(options)) return {};
  GraphBuilder b(&graph, options.registry, options.evaluator);
  Tables tables;
  bool changed = false;
  for (Node* node : nodes_in_order(graph)) {
    const auto join = join_made_by(*node, &tables);
    if (!join) continue;
    const JoinedRegion region(graph, node->output(), *join, &tables);
    if (!region.is_worth_parting()) continue;
    const bool is_concat = node->type() == "Concat";
    Parting(&b, region)
        .run(node->output(), is_concat ? node->inputs() : cut_behind(b, *node, *join));
    TUTTI_RETURN_IF_ERROR(b.status());
    changed = true;
  }
  if (!changed) return {};
  graph.remove_dead();
  return simplify(graph, options);
}

}  // namespace tutti
