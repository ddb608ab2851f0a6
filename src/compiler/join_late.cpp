// Sequences of which some stay the same over many calls and some do not are joined as late as an
// attention allows: what is worked out for the former in front of it goes to the prologue.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/cost.h"
#include "compiler/hoist.h"
#include "compiler/passes.h"
#include "compiler/sharding.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// A value in stretches along a dimension, each steady or not.
struct Joined {
  int dim = 0;
  const Node* origin = nullptr;  // the Concat, whose operands make up the stretches
  bool has_work = false;         // behind the origin
};

class LateJoins {
 public:
  LateJoins(Graph& graph, const CompileOptions& options, const std::vector<std::string>& invariant)
      : graph_(graph),
        builder_(&graph, options.registry, options.evaluator),
        varying_(varying_values(graph, invariant)) {}

  // Whether anything is joined later now.
  Result<bool> run() {
    std::vector<Node*> order;
    for (const auto& node : graph_.nodes()) order.push_back(node.get());
    bool changed = false;
    for (Node* node : order) {
      if (node->type() == "Attention") {
        changed |= join_in_front(*node);
        TUTTI_RETURN_IF_ERROR(builder_.take_status());
      } else if (!begin(*node)) {
        pass_on(*node);
      }
    }
    if (changed) graph_.remove_dead();
    return changed;
  }

 private:
  struct Stretch {
    Value* operand;
    bool varies;
    Dim size;
  };

  bool varies(const Value* value) const { return varying_.contains(value); }

  bool begin(const Node& node) {
    if (node.type() != "Concat") return false;
    const auto has = [&](bool wanted) {
      return std::any_of(node.inputs().begin(), node.inputs().end(),
                         [&](const Value* input) { return varies(input) == wanted; });
    };
    if (!has(true) || !has(false)) return false;
    const int dim = static_cast<int>(node.attr_int("axis"));
    std::vector<Stretch>& stretches = stretches_[&node];
    for (Value* input : node.inputs()) {
      stretches.push_back({input, varies(input), input->shape()[static_cast<std::size_t>(dim)]});
    }
    joined_[node.output()] = {dim, &node, false};
    return true;
  }

  static bool works_on_rows(const Node& node) {
    static const std::set<std::string, std::less<>> kTypes = {
        "Concat", "Expand", "LayerNormalization", "Linear", "MatMul", "RMSNormalization", "Reshape",
        "Slice",  "Split",  "Transpose"};
    return node.op().factors != nullptr && (node.op().is_pointwise || kTypes.contains(node.type()));
  }

  // The dimension of each operand that runs along the stretches; -1: it has none. nullopt: the node
  // does not work on each row by itself.
  std::optional<std::vector<int>> row_dims(const Node& node, const FactorMap& map,
                                           int factor) const {
    if (map.factors[static_cast<std::size_t>(factor)].role != FactorRole::kParallel ||
        map.sum_of(factor) != nullptr || map.sum_with(factor) != nullptr) {
      return std::nullopt;
    }
    std::vector<int> dims;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const auto dim = dim_of(map.inputs[i], factor);
      const bool is_weight = (node.type() == "MatMul" || node.type() == "Linear") &&
                             node.input(i) != nullptr && node.input(i)->is_constant();
      if (!dim || (is_weight && *dim >= 0)) return std::nullopt;
      dims.push_back(*dim);
    }
    return dims;
  }

  // nullopt: it shares its dimension with other factors.
  static std::optional<int> dim_of(const DimFactors& operand, int factor) {
    int found = -1;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      if (std::find(operand[d].begin(), operand[d].end(), factor) == operand[d].end()) continue;
      if (operand[d].size() != 1 || found >= 0) return std::nullopt;
      found = static_cast<int>(d);
    }
    return found;
  }

  // The results are in the stretches of an operand where steady ones stay steady.
  void pass_on(const Node& node) {
    if (!works_on_rows(node)) return;
    const Joined* from = nullptr;  // in the finest stretches
    std::size_t which = 0;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const auto it = joined_.find(node.input(i));
      if (it == joined_.end()) continue;
      const bool is_finer = from == nullptr || stretches_.at(it->second.origin).size() >
                                                   stretches_.at(from->origin).size();
      if (!is_finer) continue;
      from = &it->second;
      which = i;
    }
    if (from == nullptr) return;
    const FactorMap map = factors_of(node);
    const auto& held = map.inputs[which][static_cast<std::size_t>(from->dim)];
    if (held.size() != 1) return;
    const auto dims = row_dims(node, map, held[0]);
    if (!dims) return;
    bool has_work = from->has_work || is_real_work(node);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr || !varies(input)) continue;
      const auto other = joined_.find(input);
      const bool is_alike = other != joined_.end() && other->second.dim == (*dims)[i] &&
                            places(from->origin, other->second.origin).has_value();
      if (!is_alike) return;
      has_work |= other->second.has_work;
    }
    for (std::size_t o = 0; o < node.outputs().size(); ++o) {
      const auto dim = dim_of(map.outputs[o], held[0]);
      if (!dim || *dim < 0) return;
    }
    for (std::size_t o = 0; o < node.outputs().size(); ++o) {
      joined_[node.output(o)] = {*dim_of(map.outputs[o], held[0]), from->origin, has_work};
    }
    rows_.emplace(&node, *dims);
  }

  // By stretch of `fine`: the one of `coarse` that it is in, and where in it. nullopt: it is in
  // none. Changing ones have to agree.
  struct Place {
    std::size_t stretch;
    Dim start;
  };
  std::optional<std::vector<Place>> places(const Node* fine, const Node* coarse) const {
    const std::vector<Stretch>& whole = stretches_.at(coarse);
    std::vector<Place> found;
    std::size_t at = 0;
    Dim start = 0;
    for (const Stretch& one : stretches_.at(fine)) {
      if (at == whole.size() || whole[at].varies != one.varies) return std::nullopt;
      if (one.varies && whole[at].size != one.size) return std::nullopt;
      found.push_back({at, start});
      start = start + one.size;
      if (start != whole[at].size) continue;
      ++at;
      start = 0;
    }
    return at == whole.size() ? std::optional(found) : std::nullopt;
  }

  bool join_in_front(Node& attention) {
    bool changed = false;
    builder_.set_insertion_point(&attention);
    builder_.set_name(attention.name());
    for (std::size_t i = 0; i < 3; ++i) {
      Value* operand = attention.input(i);
      const auto it = joined_.find(operand);
      const bool is_worth_it = it != joined_.end() && it->second.has_work &&
                               it->second.dim == token_dimension(attention);
      if (!is_worth_it) continue;
      std::vector<Value*> parts;
      for (std::size_t s = 0; s < stretches_.at(it->second.origin).size(); ++s) {
        parts.push_back(stretch_of(operand, s));
      }
      if (!builder_.status().ok()) return changed;
      Value* whole = builder_.op("Concat", std::move(parts),
                                 {{"axis", static_cast<std::int64_t>(it->second.dim)}});
      attention.set_input(i, whole);
      changed = true;
    }
    return changed;
  }

  // Stretch number `s` of a joined value.
  Value* stretch_of(Value* value, std::size_t s) {
    const auto known = made_.find({value, s});
    if (known != made_.end()) return known->second;
    const Joined& joined = joined_.at(value);
    const std::vector<Stretch>& stretches = stretches_.at(joined.origin);
    if (value->producer() == joined.origin) return stretches[s].operand;
    const Node& node = *value->producer();
    Dim start = 0;
    for (std::size_t before = 0; before < s; ++before) start = start + stretches[before].size;
    std::vector<Value*> inputs = node.inputs();
    const std::vector<int>& dims = rows_.at(&node);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr || dims[i] < 0) continue;
      const auto other = joined_.find(inputs[i]);
      if (other == joined_.end()) {
        inputs[i] = builder_.slice(inputs[i], {dims[i]}, {start}, {start + stretches[s].size});
        continue;
      }
      const auto place = (*places(joined.origin, other->second.origin))[s];
      Value* coarse = stretch_of(inputs[i], place.stretch);
      const bool is_all = coarse == nullptr ||
                          coarse->shape()[static_cast<std::size_t>(dims[i])] == stretches[s].size;
      inputs[i] = is_all ? coarse
                         : builder_.slice(coarse, {dims[i]}, {place.start},
                                          {place.start + stretches[s].size});
    }
    AttributeMap attributes = node.attributes();
    if (const auto shape = attributes.find("shape"); shape != attributes.end()) {
      std::get<Shape>(shape->second)[static_cast<std::size_t>(joined.dim)] = stretches[s].size;
    }
    const std::vector<Value*> outputs =
        builder_.ops(node.type(), std::move(inputs), std::move(attributes),
                     static_cast<int>(node.outputs().size()));
    for (std::size_t o = 0; o < outputs.size(); ++o) made_[{node.output(o), s}] = outputs[o];
    return made_[{value, s}];
  }

  Graph& graph_;
  GraphBuilder builder_;
  const std::set<const Value*> varying_;
  std::map<const Node*, std::vector<Stretch>> stretches_;  // of the Concats
  std::map<const Value*, Joined> joined_;
  std::map<const Node*, std::vector<int>> rows_;  // dimensions of operands
  std::map<std::pair<const Value*, std::size_t>, Value*> made_;
};

}  // namespace

Status join_late(Graph& graph, const CompileOptions& options,
                 const std::vector<std::string>& invariant) {
  if (invariant.empty()) return {};
  TUTTI_ASSIGN_OR_RETURN(const bool changed, LateJoins(graph, options, invariant).run());
  return changed ? simplify(graph, options) : Status();
}

}  // namespace tutti
