// Slices and the joins that they undo.
#include <algorithm>
#include <set>

#include "compiler/match.h"
#include "compiler/sharding.h"
#include "compiler/simplify_rules.h"

namespace tutti {
namespace {

struct Cut {
  std::size_t axis = 0;
  Dim start = 0;
  Dim end = 0;
};

// The larger one; nullopt where the sizes leave it open.
std::optional<Dim> larger(const Dim& a, const Dim& b) {
  if (is_never_negative(a - b)) return a;
  if (is_never_negative(b - a)) return b;
  return std::nullopt;
}
std::optional<Dim> smaller(const Dim& a, const Dim& b) {
  if (is_never_negative(a - b)) return b;
  if (is_never_negative(b - a)) return a;
  return std::nullopt;
}

bool cuts_along(const Node& node, std::size_t axis) {
  if (node.type() == "Split") return node.attr_int("axis") == static_cast<std::int64_t>(axis);
  if (node.type() != "Slice") return false;
  const auto axes = node.attr_ints("axes");
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

// One operand of a Concat under a cut.
struct Piece {
  Value* operand = nullptr;
  Dim start = 0;  // within the operand
  Dim end = 0;
  bool is_whole() const { return start.is(0) && end == full; }
  Dim full = 0;
};

// The operands that a cut along the Concat's axis touches. nullopt: the sizes leave it open, or the
// cut goes through two of them, where as many slices would be left as there were.
std::optional<std::vector<Piece>> touched_pieces(const Node& concat, const Cut& cut) {
  std::vector<Piece> pieces;
  Dim low = 0;
  for (Value* operand : concat.inputs()) {
    const Dim high = low + operand->shape()[cut.axis];
    const bool is_outside = is_never_negative(low - cut.end) || is_never_negative(cut.start - high);
    if (!is_outside) {
      const auto start = larger(low, cut.start);
      const auto end = smaller(high, cut.end);
      if (!start || !end) return std::nullopt;
      pieces.push_back({operand, *start - low, *end - low, high - low});
    }
    low = high;
  }
  const bool are_whole = std::all_of(pieces.begin(), pieces.end(),
                                     [](const Piece& piece) { return piece.is_whole(); });
  if (pieces.empty() || (pieces.size() > 1 && !are_whole)) return std::nullopt;
  return pieces;
}

// What becomes of a value under a cut.
enum class Reach {
  kNone,      // nothing is gained
  kSlice,     // a slice of it is as good as free: an input or a constant
  kResolved,  // it was joined there
};

// Moves or turns rows without much work, so that it may as well do it in pieces.
bool is_light(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {
      "Concat",  "Expand", "LayerNormalization", "RMSNormalization",
      "Reshape", "Slice",  "Transpose"};
  return node.op().is_pointwise || kTypes.contains(node.type());
}

// First says whether a cut leads anywhere, then makes what it leads to; so that nothing is made in
// vain.
class CutResolver {
 public:
  explicit CutResolver(GraphBuilder* b) : b_(b) {}

  // `value` under the cut: at the end of the way up, or through its producer.
  Reach reach(const Value* value, const Cut& cut, int depth = 0) {
    constexpr int kMaxDepth = 32;
    if (value->is_constant() || value->is_input()) return Reach::kSlice;
    const Node& node = *value->producer();
    if (depth == kMaxDepth || node.outputs().size() != 1) return Reach::kNone;
    if (is_join(node, cut)) {
      return touched_pieces(node, cut) ? Reach::kResolved : Reach::kNone;
    }
    if (node.type() == "Fill") return Reach::kResolved;
    const auto cuts = operand_cuts(node, cut);
    if (!cuts || !is_cut_by_all(*value, cut, depth)) return Reach::kNone;
    Reach best = Reach::kNone;
    for (std::size_t i = 0; i < cuts->size(); ++i) {
      if (!(*cuts)[i]) continue;
      const Reach one = reach(node.input(i), *(*cuts)[i], depth + 1);
      if (one == Reach::kNone) return Reach::kNone;
      if (best != Reach::kResolved) best = one;
    }
    // An Expand that repeats along the axis has no operand to cut.
    return best == Reach::kNone && node.type() == "Expand" ? Reach::kResolved : best;
  }

  // Only after reach() did not say kNone.
  Value* make(Value* value, const Cut& cut, int depth = 0) {
    if (value->is_constant() || value->is_input()) return slice(value, cut);
    const Node& node = *value->producer();
    constexpr int kMaxDepth = 32;
    const bool is_whole = depth == kMaxDepth || node.outputs().size() != 1;
    if (!is_whole && is_join(node, cut)) {
      const auto pieces = touched_pieces(node, cut);
      return pieces ? joined(*pieces, cut) : slice(value, cut);
    }
    std::vector<Value*> inputs = node.inputs();
    if (node.type() != "Fill") {
      const auto cuts = operand_cuts(node, cut);
      if (is_whole || !cuts || !is_cut_by_all(*value, cut, depth)) return slice(value, cut);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if ((*cuts)[i]) inputs[i] = make(inputs[i], *(*cuts)[i], depth + 1);
      }
    }
    return b_->op(node.type(), std::move(inputs), cut_attributes(node, cut));
  }

  Value* slice(Value* value, const Cut& cut) {
    if (value == nullptr || (cut.start.is(0) && cut.end == value->shape()[cut.axis])) return value;
    return b_->slice(value, {static_cast<std::int64_t>(cut.axis)}, {cut.start}, {cut.end});
  }

 private:
  static bool is_join(const Node& node, const Cut& cut) {
    return node.type() == "Concat" && node.attr_int("axis") == static_cast<std::int64_t>(cut.axis);
  }

  // On the way up, nobody else needs the whole of what is computed in pieces then.
  bool is_cut_by_all(const Value& value, const Cut& cut, int depth) const {
    if (is_graph_output(b_->graph(), &value)) return false;
    if (depth > 0) return value.users().size() == 1;
    return std::all_of(value.users().begin(), value.users().end(),
                       [&](const Node* user) { return cuts_along(*user, cut.axis); });
  }

  // By the node's rule: where the cut dimension is one parallel factor of its own, the operands
  // that have it are cut alike. By operand; nullopt for those without it. Nothing: no such rule.
  std::optional<std::vector<std::optional<Cut>>> operand_cuts(const Node& node,
                                                              const Cut& cut) const {
    if (node.op().factors == nullptr || !is_light(node)) return std::nullopt;
    const FactorMap map = factors_of(node);
    const std::vector<int>& factors = map.outputs[0][cut.axis];
    if (factors.size() != 1) return std::nullopt;
    const Factor& factor = map.factors[static_cast<std::size_t>(factors[0])];
    if (factor.role != FactorRole::kParallel) return std::nullopt;
    std::vector<std::optional<Cut>> cuts(node.inputs().size());
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      if (node.input(i) == nullptr) continue;
      for (std::size_t d = 0; d < map.inputs[i].size(); ++d) {
        const std::vector<int>& held = map.inputs[i][d];
        if (std::find(held.begin(), held.end(), factors[0]) == held.end()) continue;
        if (held.size() != 1 || cuts[i]) return std::nullopt;
        cuts[i] = Cut{d, cut.start, cut.end};
      }
    }
    return cuts;
  }

  // Attributes that spell out the output's shape spell out that of the piece.
  static AttributeMap cut_attributes(const Node& node, const Cut& cut) {
    AttributeMap attributes = node.attributes();
    Shape shape = node.output()->shape();
    for (auto& [name, attribute] : attributes) {
      Shape* dims = std::get_if<Shape>(&attribute);
      if (dims != nullptr && *dims == shape) (*dims)[cut.axis] = cut.end - cut.start;
    }
    return attributes;
  }

  Value* joined(const std::vector<Piece>& pieces, const Cut& cut) {
    std::vector<Value*> values;
    values.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      values.push_back(slice(piece.operand, {cut.axis, piece.start, piece.end}));
    }
    if (values.size() == 1) return values[0];
    return b_->op("Concat", std::move(values), {{"axis", static_cast<std::int64_t>(cut.axis)}});
  }

  GraphBuilder* b_;
};

// Two slices of step 1 in a row as one.
Value* merged_slices(GraphBuilder& b, const Node& outer) {
  const Node* inner = producer_of(outer.input(0), "Slice");
  if (inner == nullptr) return nullptr;
  for (const Node* node : {&outer, inner}) {
    const auto steps = node->attr_ints("steps");
    if (std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; })) {
      return nullptr;
    }
  }
  auto axes = inner->attr_ints("axes");
  Shape starts = inner->attr_dims("starts");
  Shape ends = inner->attr_dims("ends");
  const auto outer_axes = outer.attr_ints("axes");
  const Shape outer_starts = outer.attr_dims("starts");
  const Shape outer_ends = outer.attr_dims("ends");
  for (std::size_t i = 0; i < outer_axes.size(); ++i) {
    const auto at = std::find(axes.begin(), axes.end(), outer_axes[i]);
    if (at == axes.end()) {
      axes.push_back(outer_axes[i]);
      starts.push_back(outer_starts[i]);
      ends.push_back(outer_ends[i]);
      continue;
    }
    const auto known = static_cast<std::size_t>(at - axes.begin());
    ends[known] = starts[known] + outer_ends[i];
    starts[known] = starts[known] + outer_starts[i];
  }
  return b.slice(inner->input(0), std::move(axes), std::move(starts), std::move(ends));
}

// The Slice of one axis and step 1 that `value` is, as a cut of its operand.
std::optional<Cut> single_cut(const Value* value) {
  const Node* slice = producer_of(value, "Slice");
  if (slice == nullptr || slice->attr_ints("axes").size() != 1 ||
      slice->attr_ints("steps")[0] != 1) {
    return std::nullopt;
  }
  return Cut{static_cast<std::size_t>(slice->attr_ints("axes")[0]), slice->attr_dims("starts")[0],
             slice->attr_dims("ends")[0]};
}

// Slices x[a:b], x[b:c] side by side in a list of operands become x[a:c].
bool merge_neighbours(GraphBuilder& b, std::size_t axis, std::vector<Value*>* operands) {
  std::vector<Value*> merged;
  for (Value* operand : *operands) {
    const auto cut = single_cut(operand);
    const auto before = merged.empty() ? std::nullopt : single_cut(merged.back());
    const bool meets = cut && before && cut->axis == axis && before->axis == axis &&
                       cut->start == before->end &&
                       operand->producer()->input(0) == merged.back()->producer()->input(0);
    if (!meets) {
      merged.push_back(operand);
      continue;
    }
    Value* whole = operand->producer()->input(0);
    merged.back() = CutResolver(&b).slice(whole, {axis, before->start, cut->end});
  }
  const bool changed = merged.size() != operands->size();
  *operands = std::move(merged);
  return changed;
}

}  // namespace

Value* value_before_cut(GraphBuilder& b, const Node& slice) {
  if (slice.type() != "Slice") return nullptr;
  if (Value* merged = merged_slices(b, slice)) return merged;
  const auto axes = slice.attr_ints("axes");
  const auto steps = slice.attr_ints("steps");
  const Shape starts = slice.attr_dims("starts");
  const Shape ends = slice.attr_dims("ends");
  CutResolver resolver(&b);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] != 1) continue;
    const Cut cut{static_cast<std::size_t>(axes[i]), starts[i], ends[i]};
    if (resolver.reach(slice.input(0), cut) != Reach::kResolved) continue;
    Value* y = resolver.make(slice.input(0), cut);
    if (axes.size() == 1) return y;
    const auto drop = [i](auto list) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      return list;
    };
    return b.op("Slice", {y},
                {{"axes", drop(axes)},
                 {"starts", drop(starts)},
                 {"ends", drop(ends)},
                 {"steps", drop(steps)}});
  }
  return nullptr;
}

std::vector<Value*> values_before_split(GraphBuilder& b, const Node& split) {
  if (split.type() != "Split") return {};
  CutResolver resolver(&b);
  std::vector<Cut> cuts;
  Dim start = 0;
  for (const Dim& size : split.attr_dims("sizes")) {
    cuts.push_back({static_cast<std::size_t>(split.attr_int("axis")), start, start + size});
    start = start + size;
    if (resolver.reach(split.input(0), cuts.back()) != Reach::kResolved) return {};
  }
  std::vector<Value*> values;
  values.reserve(cuts.size());
  for (const Cut& cut : cuts) values.push_back(resolver.make(split.input(0), cut));
  return values;
}

Value* merged_concat(GraphBuilder& b, const Graph& graph, const Node& concat) {
  if (concat.type() != "Concat") return nullptr;
  const std::int64_t axis = concat.attr_int("axis");
  std::vector<Value*> operands;
  bool changed = false;
  for (Value* operand : concat.inputs()) {
    const Node* inner = producer_of(operand, "Concat");
    const bool is_flat =
        inner == nullptr || inner->attr_int("axis") != axis || !has_single_use(graph, operand);
    if (is_flat) {
      operands.push_back(operand);
      continue;
    }
    operands.insert(operands.end(), inner->inputs().begin(), inner->inputs().end());
    changed = true;
  }
  changed |= merge_neighbours(b, static_cast<std::size_t>(axis), &operands);
  if (!changed) return nullptr;
  if (operands.size() == 1) return operands[0];
  return b.op("Concat", std::move(operands), {{"axis", axis}});
}

}  // namespace tutti
