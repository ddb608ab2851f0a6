// Shares nothing with the propagation on purpose: it reads the finished graph, the operators'
// factor maps and the layout of each value, and looks for one assignment that explains them.
#include <algorithm>
#include <set>

#include "compiler/partition.h"
#include "graph/op_def.h"

namespace tutti {
namespace {

// The work of a node along one axis: `units` equal parts of the product of `factors`, each
// standing `copies` times.
struct Assignment {
  std::vector<int> factors;
  Dim units;
  Dim copies;
  std::vector<Dim> segments = {};  // cut each by itself
  std::vector<Dim> grains = {};
};

class Verifier {
 public:
  Verifier(const Partitioned& model, const Mesh& mesh) : model_(model), mesh_(mesh) {}

  Status run() {
    for (const Value* input : model_.graph->inputs()) {
      TUTTI_RETURN_IF_ERROR(check_whole(*input, "input"));
    }
    for (const Value* constant : model_.graph->constants()) {
      TUTTI_RETURN_IF_ERROR(check_whole(*constant, "constant"));
    }
    for (const auto& node : model_.graph->nodes()) {
      TUTTI_RETURN_IF_ERROR(check_node(*node).with_context(node->describe()));
    }
    for (const Value* output : model_.graph->outputs()) {
      TUTTI_RETURN_IF_ERROR(check_whole(*output, "output"));
    }
    return {};
  }

 private:
  Result<const ValueLayout*> find(const Value& value) const {
    const auto it = model_.layouts.find(value.name());
    if (it == model_.layouts.end()) return internal_error("'", value.name(), "' has no layout");
    return &it->second;
  }

  std::string text(const ValueLayout& value) const {
    return value.layout.to_string(value.global.shape, mesh_);
  }

  Status check_whole(const Value& value, std::string_view what) const {
    TUTTI_ASSIGN_OR_RETURN(const ValueLayout* layout, find(value));
    if (layout->layout.is_replicated() && value.type() == layout->global) return {};
    return internal_error(what, " '", value.name(), "' is ", text(*layout),
                          ", expected whole on every rank");
  }

  // The local type follows from the whole type and the layout.
  Status check_type(const Value& value) const {
    TUTTI_ASSIGN_OR_RETURN(const ValueLayout* layout, find(value));
    Shape expected = layout->global.shape;
    std::set<int> dims;
    std::set<int> axes;
    for (const Split& split : layout->layout.splits) {
      if (split.dim < 0 || split.dim >= static_cast<int>(expected.size()) || split.axis < 0 ||
          split.axis >= static_cast<int>(mesh_.axes().size()) || !dims.insert(split.dim).second ||
          !axes.insert(split.axis).second) {
        return internal_error("'", value.name(), "' has an impossible layout");
      }
      Dim& size = expected[static_cast<std::size_t>(split.dim)];
      if (split.window) {
        TUTTI_ASSIGN_OR_RETURN(size, window_rows(value, split, size));
        continue;
      }
      const auto unit = exact_div(size, split.units);
      if (!unit) {
        return internal_error("'", value.name(), "' of size ", size, " along dimension ", split.dim,
                              " does not consist of ", split.units, " units");
      }
      size = *unit * held_units(split);
    }
    if (value.dtype() == layout->global.dtype && value.shape() == expected) return {};
    return internal_error("'", value.name(), "' is ", value.type(), " on a rank, expected ",
                          expected, " for layout ", text(*layout));
  }

  // Units of a piece, copies counted.
  Dim held_units(const Split& split) const {
    const int ranks = mesh_.size(split.axis);
    const Dim rank = mesh_.rank_symbol(split.axis);
    if (split.segments.empty()) return part(split.units * Dim(split.replicas), ranks, rank);
    Dim held = 0;
    for (std::size_t i = 0; i < split.segments.size(); ++i) {
      const Dim grain = split.grains.empty() ? Dim(1) : split.grains[i];
      held = held + part(floor_div(split.segments[i], grain), ranks, rank) * grain;
    }
    return held;
  }

  // A piece of the result has `count` rows; its windows start `stride` rows apart, so the last ends
  // extent - stride rows after those of the next piece would start.
  Result<Dim> window_rows(const Value& value, const Split& split, const Dim& size) const {
    const SplitWindow& window = *split.window;
    const auto unit = exact_div(window.rows, split.units);
    if (!unit || split.replicas != 1 || window.size != size) {
      return internal_error("'", value.name(), "' of size ", size, " along dimension ", split.dim,
                            " is read through windows of ", window.rows, " rows in ", split.units,
                            " units and ", window.size, " rows");
    }
    const Dim count =
        *unit * part(split.units, mesh_.size(split.axis), mesh_.rank_symbol(split.axis));
    const std::int64_t beyond = window.map.extent - window.map.stride;
    return count * Dim(window.map.stride) + Dim(beyond > 0 ? beyond : 0);
  }

  Status check_node(const Node& node) const {
    for (const Value* output : node.outputs()) TUTTI_RETURN_IF_ERROR(check_type(*output));
    // Exchanges of the axes before are work like any other.
    const auto origin = model_.origins.find(&node);
    const bool is_slice = node.type() == "ShardSlice" || node.type() == "WindowSlice";
    if (origin == model_.origins.end() && (is_slice || node.op().is_exchange)) {
      return check_exchange(node);
    }
    const bool is_read = node.type() == "Halo" || node.type() == "WindowSlice";
    if (is_read && origin != model_.origins.end() && origin->second->type() != node.type()) {
      return check_moved_rows(node, *origin->second);
    }
    return check_work(node);
  }

  // --- Exchanges: each changes the layout of its operands along one axis.

  Split cut(const Node& node, int axis) const {
    return Split{static_cast<int>(node.attr_int("dim")),
                 axis,
                 node.attr_dims("units")[0],
                 static_cast<int>(node.attr_int("replicas", 1)),
                 node.attr_dims("segments"),
                 node.attr_dims("grains")};
  }

  // Operands of a gather have units of their own, or the same.
  Split gathered(const Node& node, std::size_t operand, int axis) const {
    Split split = cut(node, axis);
    const Shape units = node.attr_dims("units");
    split.units = units[units.size() == 1 ? 0 : operand];
    return split;
  }

  Split pieces_read(const Node& node, int axis) const {
    return Split{static_cast<int>(node.attr_int("dim")), axis, node.attr_dims("from_units")[0], 1};
  }

  Split windows(const Node& node, int axis) const {
    Split split = cut(node, axis);
    split.window =
        SplitWindow{node.attr_dims("rows")[0],
                    node.attr_dims("size")[0],
                    {node.attr_int("stride"), node.attr_dims("offset")[0], node.attr_int("extent"),
                     parse_window_edge(node.attr_string("edge")).value()}};
    return split;
  }

  bool reads_own_rows(const Node& node) const {
    return node.attr_int("stride") == 1 && node.attr_int("extent") == 1 &&
           node.attr_dims("offset")[0].is(0) && node.attr_dims("rows") == node.attr_dims("size");
  }

  // An exchange that brings the rows that are a Slice's or Pad's result.
  Status check_moved_rows(const Node& node, const Node& whole) const {
    const int axis = mesh_.find(node.attr_string("axis"));
    if (axis < 0) return internal_error("mesh has no axis '", node.attr_string("axis"), "'");
    TUTTI_ASSIGN_OR_RETURN(const ValueLayout* in, find(*node.input(0)));
    TUTTI_ASSIGN_OR_RETURN(const ValueLayout* out, find(*node.output()));
    const FactorMap map = whole.op().factors(whole);
    const auto dim = static_cast<std::size_t>(node.attr_int("dim"));
    const FactorWindow* window = map.window_of(map.inputs[0][dim]);
    Layout expected_in;
    if (node.type() == "Halo") expected_in.set(pieces_read(node, axis));
    Layout expected_out;
    expected_out.set(cut(node, axis));
    const SplitWindow read = *windows(node, axis).window;
    SplitWindow expected{out->global.shape[dim], in->global.shape[dim],
                         window == nullptr ? WindowMap() : window->map};
    const Split* result = out->layout.on_axis(axis);
    if (result != nullptr && result->window) {
      // Windows over the moved rows, which none of them leaves.
      const SplitWindow& over = *result->window;
      const Dim begin = over.map.offset;
      const Dim end = begin + (over.rows - Dim(1)) * Dim(over.map.stride) + Dim(over.map.extent);
      const Dim room = over.size - end;
      if (!begin.is_constant() || begin.constant() < 0 || !room.is_constant() ||
          room.constant() < 0 || over.size != out->global.shape[dim]) {
        return internal_error("reads past the edges of ", whole.describe());
      }
      expected.rows = over.rows;
      expected.map.stride = over.map.stride;
      expected.map.extent = over.map.extent;
      expected.map.offset = expected.map.offset + begin;
      expected_out = Layout();
      Split cut_windows = cut(node, axis);
      cut_windows.window = over;
      expected_out.set(cut_windows);
    }
    const bool fits = in->global == whole.input(0)->type() &&
                      out->global == whole.output()->type() && window != nullptr &&
                      window->map.only_moves() && read == expected &&
                      map.outputs[0][dim] == std::vector<int>{window->output} &&
                      in->layout == expected_in && out->layout == expected_out;
    if (fits) return {};
    return internal_error("from ", text(*in), " to ", text(*out), " is not the work of ",
                          whole.describe(), " with rule ", map.to_string());
  }

  Status check_exchange(const Node& node) const {
    const int axis = mesh_.find(node.attr_string("axis"));
    if (axis < 0) return internal_error("mesh has no axis '", node.attr_string("axis"), "'");
    if (node.attr_int("ranks") != mesh_.size(axis)) {
      return internal_error("is for ", node.attr_int("ranks"), " ranks of ", mesh_.size(axis));
    }
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(const ValueLayout* in, find(*node.input(i)));
      TUTTI_ASSIGN_OR_RETURN(const ValueLayout* out, find(*node.output(i)));
      Layout from;  // what the node takes and gives along its axis
      Layout to;
      if (node.type() == "ShardSlice") {
        to.set(cut(node, axis));
      } else if (node.type() == "WindowSlice") {
        to.set(windows(node, axis));
      } else if (node.type() == "Halo") {
        from.set(pieces_read(node, axis));
        const Split* split = out->layout.on_axis(axis);
        const bool is_plain = split != nullptr && !split->window;
        if (is_plain && !reads_own_rows(node)) return internal_error("moves rows of pieces");
        to.set(is_plain ? cut(node, axis) : windows(node, axis));
      } else if (node.type() == "AllGather") {
        from.set(gathered(node, i, axis));
      } else if (node.type() == "AllToAll") {
        from.set({static_cast<int>(node.attr_ints("from_dims")[i]), axis,
                  node.attr_dims("from_units")[i],
                  static_cast<int>(node.attr_ints("from_replicas")[i])});
        to.set({static_cast<int>(node.attr_ints("to_dims")[i]), axis, node.attr_dims("to_units")[i],
                static_cast<int>(node.attr_ints("to_replicas")[i])});
      } else {
        from.partial_axes = {axis};
        if (node.type() == "ReduceScatter") to.set(cut(node, axis));
      }
      Layout expected_in = out->layout;
      expected_in.remove_axis(axis);
      Layout expected_out = expected_in;
      for (const Split& split : from.splits) expected_in.set(split);
      if (!from.partial_axes.empty()) {
        expected_in.partial_axes.push_back(axis);
        std::sort(expected_in.partial_axes.begin(), expected_in.partial_axes.end());
      }
      for (const Split& split : to.splits) expected_out.set(split);
      if (in->global != out->global || in->layout != expected_in || out->layout != expected_out) {
        return internal_error("operand ", i, " goes from ", text(*in), " to ", text(*out),
                              ", which is not what its attributes say");
      }
    }
    return {};
  }

  // --- Work: one assignment an axis.

  Status check_work(const Node& node) const {
    const auto origin = model_.origins.find(&node);
    if (origin == model_.origins.end()) return internal_error("does a piece of no known node");
    const Node& whole = *origin->second;
    std::vector<const ValueLayout*> operands;  // inputs, then outputs; null: absent
    std::vector<DimFactors> rows;
    const bool has_rule = whole.op().factors != nullptr;
    const FactorMap map = has_rule ? whole.op().factors(whole) : FactorMap();
    const auto collect = [&](const std::vector<Value*>& local, const std::vector<Value*>& global,
                             const std::vector<DimFactors>& factors) -> Status {
      for (std::size_t i = 0; i < local.size(); ++i) {
        rows.push_back(has_rule ? factors[i] : DimFactors());
        operands.push_back(nullptr);
        if (local[i] == nullptr) continue;
        TUTTI_ASSIGN_OR_RETURN(operands.back(), find(*local[i]));
        if (operands.back()->global != global[i]->type()) {
          return internal_error("'", local[i]->name(), "' stands for ", operands.back()->global,
                                ", expected ", global[i]->type());
        }
      }
      return {};
    };
    TUTTI_RETURN_IF_ERROR(collect(node.inputs(), whole.inputs(), map.inputs));
    TUTTI_RETURN_IF_ERROR(collect(node.outputs(), whole.outputs(), map.outputs));
    const std::size_t num_inputs = node.inputs().size();

    std::set<int> used;
    for (int axis = 0; axis < static_cast<int>(mesh_.axes().size()); ++axis) {
      TUTTI_RETURN_IF_ERROR(check_axis(map, has_rule, axis, operands, rows, num_inputs, &used));
    }
    return {};
  }

  Status check_axis(const FactorMap& map, bool has_rule, int axis,
                    const std::vector<const ValueLayout*>& operands,
                    const std::vector<DimFactors>& rows, std::size_t num_inputs,
                    std::set<int>* used) const {
    std::vector<Assignment> explanations;
    const ValueLayout* cause = nullptr;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      if (is_partial(*operands[i], axis)) {
        if (i < num_inputs) {
          return internal_error("operand ", i, " is a partial sum: ", text(*operands[i]));
        }
        if (cause == nullptr) cause = operands[i];
      }
      const Split* split = operands[i]->layout.on_axis(axis);
      if (split == nullptr || !explanations.empty()) continue;
      cause = operands[i];
      if (!has_rule) break;
      const auto& holder = rows[i][static_cast<std::size_t>(split->dim)];
      const auto* window = map.window_of(holder);
      if (window != nullptr && split->window) {
        explanations.push_back({{window->output}, split->units, Dim(1), {}});
        continue;
      }
      if (!holder.empty() && !split->segments.empty()) {
        explanations.push_back({{holder[0]}, split->units, Dim(1), split->segments, split->grains});
        continue;
      }
      std::vector<int> prefix;
      for (const int factor : rows[i][static_cast<std::size_t>(split->dim)]) {
        prefix.push_back(factor);
        explanations.push_back({prefix, split->units, Dim(split->replicas)});
        // The same ranks may share finer units of an operand that holds more factors.
        if (split->replicas > 1) {
          add_finer(map, rows, prefix, split->units * Dim(split->replicas), &explanations);
        }
        if (is_even(*split)) explanations.push_back({prefix, size_of(map, prefix), Dim(1)});
      }
    }
    if (cause == nullptr) return {};
    if (follows_a_sum(map, axis, operands, rows, num_inputs)) return {};
    for (const Assignment& assignment : explanations) {
      if (!explains(map, assignment, axis, operands, rows, num_inputs)) continue;
      for (const int factor : assignment.factors) {
        if (!used->insert(factor).second) {
          return internal_error("factor ", map.factors[static_cast<std::size_t>(factor)].name,
                                " is split over two mesh axes");
        }
      }
      return {};
    }
    std::string found;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i == num_inputs) found += " ->";
      found += " " + (operands[i] == nullptr ? std::string("-") : text(*operands[i]));
    }
    return internal_error("operands", found, " do not follow rule ",
                          has_rule ? map.to_string() : std::string("(all whole)"), " along '",
                          mesh_.axes()[static_cast<std::size_t>(axis)].name, "'");
  }

  static void add_finer(const FactorMap& map, const std::vector<DimFactors>& rows,
                        const std::vector<int>& prefix, const Dim& stands,
                        std::vector<Assignment>* out) {
    for (const DimFactors& row : rows) {
      for (const std::vector<int>& dim : row) {
        if (dim.size() <= prefix.size() || !std::equal(prefix.begin(), prefix.end(), dim.begin())) {
          continue;
        }
        std::vector<int> longer = prefix;
        longer.push_back(dim[prefix.size()]);
        if (exact_div(size_of(map, longer), stands)) out->push_back({longer, stands, Dim(1)});
      }
    }
  }

  static Dim size_of(const FactorMap& map, const std::vector<int>& factors) {
    Dim size = 1;
    for (const int factor : factors)
      size = size * map.factors[static_cast<std::size_t>(factor)].size;
    return size;
  }

  bool is_even(const Split& split) const {
    return split.replicas == 1 && split.segments.empty() &&
           exact_div(split.units, Dim(mesh_.size(split.axis)));
  }

  static bool is_partial(const ValueLayout& value, int axis) {
    const auto& axes = value.layout.partial_axes;
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  }

  bool explains(const FactorMap& map, const Assignment& assignment, int axis,
                const std::vector<const ValueLayout*>& operands,
                const std::vector<DimFactors>& rows, std::size_t num_inputs) const {
    bool is_sum = false;
    for (const int index : assignment.factors) {
      const FactorRole role = map.factors[static_cast<std::size_t>(index)].role;
      if (role == FactorRole::kWhole) return false;
      is_sum = is_sum || role == FactorRole::kReduction;
    }
    if (is_sum && (assignment.factors.size() != 1 || !assignment.copies.is(1))) return false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      const bool is_output = i >= num_inputs;
      if (is_output && is_partial(*operands[i], axis) != is_sum) return false;
      const Split* split = operands[i]->layout.on_axis(axis);
      if (const FactorWindow* window = window_under(map, assignment, rows[i])) {
        if (is_output || !reads_windows(map, assignment, *window, rows[i], split)) return false;
        continue;
      }
      if (split != nullptr && split->window) return false;
      int holder = -1;  // the dimension that holds assigned factors
      std::size_t held = 0;
      for (std::size_t d = 0; d < rows[i].size(); ++d) {
        for (std::size_t j = 0; j < rows[i][d].size(); ++j) {
          const auto& assigned = assignment.factors;
          if (std::find(assigned.begin(), assigned.end(), rows[i][d][j]) == assigned.end())
            continue;
          const bool continues = holder < 0 || holder == static_cast<int>(d);
          if (!continues || j != held || assigned[held] != rows[i][d][j]) return false;
          holder = static_cast<int>(d);
          ++held;
        }
      }
      if (holder < 0) {
        if (split != nullptr || (is_output && !is_sum)) return false;
        continue;
      }
      if (is_output && (is_sum || held < assignment.factors.size())) return false;
      if (split == nullptr || split->dim != holder) return false;
      if (!pieces_agree(map, assignment, held, *split)) return false;
    }
    return true;
  }

  // Every operand holds the whole of one sum, cut in segments, or a part of it, cut by itself.
  bool follows_a_sum(const FactorMap& map, int axis,
                     const std::vector<const ValueLayout*>& operands,
                     const std::vector<DimFactors>& rows, std::size_t num_inputs) const {
    return std::any_of(map.sums.begin(), map.sums.end(), [&](const FactorSum& sum) {
      const Split* joined = nullptr;  // of the whole, which always is an operand
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const Split* split = operands[i] == nullptr ? nullptr : operands[i]->layout.on_axis(axis);
        if (split != nullptr && holds_at(rows[i], split->dim, sum.whole)) {
          joined = split;
        }
      }
      if (joined == nullptr || joined->segments.empty()) return false;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == nullptr) continue;
        if (is_partial(*operands[i], axis)) return false;
        const Split* split = operands[i]->layout.on_axis(axis);
        if (split == nullptr) {
          const bool is_outside =
              std::none_of(rows[i].begin(), rows[i].end(), [&](const auto& dim) {
                return std::find(dim.begin(), dim.end(), sum.whole) != dim.end() ||
                       std::any_of(sum.parts.begin(), sum.parts.end(), [&](int p) {
                         return std::find(dim.begin(), dim.end(), p) != dim.end();
                       });
              });
          if (!is_outside || i >= num_inputs) return false;
          continue;
        }
        if (split->replicas != 1) return false;
        if (holds_at(rows[i], split->dim, sum.whole)) {
          if (split->segments != joined->segments || split->grains != joined->grains) return false;
        } else if (!is_cut_part(map, sum, *joined, rows[i], *split)) {
          return false;
        }
      }
      return true;
    });
  }

  static bool holds_at(const DimFactors& row, int dim, int factor) {
    const std::vector<int>& factors = row[static_cast<std::size_t>(dim)];
    return factors.size() == 1 && factors[0] == factor;
  }

  // The split is that of the part which the dimension holds: its run of the segments.
  bool is_cut_part(const FactorMap& map, const FactorSum& sum, const Split& joined,
                   const DimFactors& row, const Split& split) const {
    std::size_t next = 0;
    for (const int part : sum.parts) {
      const Dim& size = map.factors[static_cast<std::size_t>(part)].size;
      std::vector<Dim> run;
      std::vector<Dim> grains;
      Dim covered = 0;
      while (covered != size && next < joined.segments.size()) {
        covered = covered + joined.segments[next];
        run.push_back(joined.segments[next]);
        grains.push_back(joined.grains.empty() ? Dim(1) : joined.grains[next]);
        ++next;
      }
      if (covered != size) return false;
      if (!holds_at(row, split.dim, part)) continue;
      const bool has_grains =
          std::any_of(grains.begin(), grains.end(), [](const Dim& grain) { return !grain.is(1); });
      if (run.size() > 1) {
        return split.segments == run && split.units == size &&
               split.grains == (has_grains ? grains : std::vector<Dim>());
      }
      if (!split.segments.empty()) return false;
      return split.units * grains[0] == size ||
             (is_even(split) && !has_grains && exact_div(size, Dim(mesh_.size(split.axis))));
    }
    return false;
  }

  // The window through which an operand with these factors is read under the assignment, or null.
  static const FactorWindow* window_under(const FactorMap& map, const Assignment& assignment,
                                          const DimFactors& row) {
    for (const std::vector<int>& dim : row) {
      const FactorWindow* window = map.window_of(dim);
      if (window != nullptr && assignment.factors == std::vector<int>{window->output})
        return window;
    }
    return nullptr;
  }

  // The ranks hold what the windows of their share of the work read.
  static bool reads_windows(const FactorMap& map, const Assignment& assignment,
                            const FactorWindow& window, const DimFactors& row, const Split* split) {
    if (split == nullptr || !split->window || split->units != assignment.units) return false;
    const auto size_of = [&](int index) {
      return map.factors[static_cast<std::size_t>(index)].size;
    };
    return row[static_cast<std::size_t>(split->dim)] == std::vector<int>{window.input} &&
           map.factors[static_cast<std::size_t>(window.output)].role == FactorRole::kWindow &&
           assignment.copies.is(1) && split->window->rows == size_of(window.output) &&
           split->window->size == size_of(window.input) && split->window->map == window.map;
  }

  // A rank's piece of a dimension that holds the first `held` factors covers its share of the work.
  bool pieces_agree(const FactorMap& map, const Assignment& assignment, std::size_t held,
                    const Split& split) const {
    const std::vector<int> prefix(assignment.factors.begin(),
                                  assignment.factors.begin() + static_cast<std::ptrdiff_t>(held));
    const Dim size = size_of(map, prefix);
    if (!assignment.segments.empty() || !split.segments.empty()) {
      return split.segments == assignment.segments && split.grains == assignment.grains &&
             split.units == assignment.units && split.units == size;
    }
    if (exact_div(size, assignment.units)) {
      if (split.units == assignment.units && Dim(split.replicas) == assignment.copies) return true;
      const Dim ranks(mesh_.size(split.axis));
      return assignment.copies.is(1) && is_even(split) && exact_div(assignment.units, ranks);
    }
    // Finer work than this operand has units: each unit serves several parts.
    return split.units == size &&
           split.units * Dim(split.replicas) == assignment.units * assignment.copies;
  }

  const Partitioned& model_;
  const Mesh& mesh_;
};

}  // namespace

Status verify_layouts(const Partitioned& model, const Mesh& mesh) {
  return Verifier(model, mesh).run();
}

}  // namespace tutti
