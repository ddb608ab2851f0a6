// Operators that cut tensors and join them: Slice, Split, Concat, Pad.
#include <algorithm>
#include <limits>

#include "ops/movement.h"

namespace tutti {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int32_t>::max();

// All coefficients are negative: an offset from the end, as in x[:, -n:].
bool counts_from_end(const Dim& dim) {
  if (dim.is_constant()) return dim.constant() < 0;
  return (Dim(0) - dim).to_string().find('-') == std::string::npos;
}

// Keeps b - a's sign in view: the smaller one where that can be shown, nullopt otherwise.
std::optional<Dim> smaller(const Dim& a, const Dim& b) {
  const Dim difference = b - a;
  if (!difference.is_constant()) return std::nullopt;
  return difference.constant() >= 0 ? a : b;
}

// --- Slice ------------------------------------------------------------------------------------

// Elements from start to end (exclusive) by steps.
Dim slice_size(const Dim& start, const Dim& end, std::int64_t step) {
  const Dim span = step > 0 ? end - start : start - end;
  const Dim count = ceil_div(span, step > 0 ? step : -step);
  return count.is_constant() ? Dim(std::max<std::int64_t>(count.constant(), 0)) : count;
}

Status check_bound(const Dim& at, std::int64_t low, const Dim& high, std::string_view what) {
  const Dim room = high - at;
  const bool below = at.is_constant() && at.constant() < low;
  const bool above = room.is_constant() && room.constant() < 0;
  if (below || above) {
    return invalid_argument(what, " ", at, " is not in [", low, ", ", high, "]");
  }
  return {};
}

Result<std::vector<TensorType>> infer_slice(const Node& node, int) {
  const Value& x = *node.input(0);
  const Axes axes = node.attr_ints("axes");
  const Axes steps = node.attr_ints("steps");
  const Shape starts = node.attr_dims("starts");
  const Shape ends = node.attr_dims("ends");
  TUTTI_RETURN_IF_ERROR(check_axes(axes, x.rank()));
  if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size()) {
    return invalid_argument("axes ", axes, ", starts ", starts, ", ends ", ends, " and steps ",
                            steps, " differ in length");
  }
  Shape shape = x.shape();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) return invalid_argument("step 0 on axis ", axes[i]);
    const auto axis = static_cast<std::size_t>(axes[i]);
    const std::int64_t low = steps[i] > 0 ? 0 : -1;
    TUTTI_RETURN_IF_ERROR(check_bound(starts[i], low, shape[axis], "start"));
    TUTTI_RETURN_IF_ERROR(check_bound(ends[i], low, shape[axis], "end"));
    shape[axis] = slice_size(starts[i], ends[i], steps[i]);
  }
  return one_type(x.dtype(), std::move(shape));
}

std::optional<std::vector<Dim>> sliced_elements(const Node& node) {
  const auto& elements = node.input(0)->symbolic();
  if (!elements || node.input(0)->rank() != 1) return std::nullopt;
  const Axes axes = node.attr_ints("axes");
  if (axes.empty()) return elements;
  const Dim start = node.attr_dims("starts")[0];
  const Dim count = node.output()->shape()[0];
  const std::int64_t step = node.attr_ints("steps")[0];
  if (!start.is_constant() || !count.is_constant()) return std::nullopt;
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < count.constant(); ++i) {
    out.push_back((*elements)[static_cast<std::size_t>(start.constant() + i * step)]);
  }
  return out;
}

struct Range {
  Dim start;
  Dim end;
};

Range backward_range(const Dim& start, const Dim& end, const Dim& size) {
  if (size.is(0)) return {0, 0};
  Range range{start, end};
  if (counts_from_end(start)) range.start = start + size;
  if (const auto less = smaller(range.start, size - 1)) range.start = *less;
  if (start.is_constant() && start.constant() >= kHuge) range.start = size - 1;
  if (range.start.is_constant()) range.start = std::max<std::int64_t>(range.start.constant(), 0);
  if (counts_from_end(end)) range.end = end + size;
  if (const auto less = smaller(range.end, size)) range.end = *less;
  if (end.is_constant() && end.constant() <= -kHuge) range.end = -1;
  if (range.end.is_constant()) range.end = std::max<std::int64_t>(range.end.constant(), -1);
  return range;
}

Status lower_slice(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Shape starts, c.known_sizes(1));
  TUTTI_ASSIGN_OR_RETURN(const Shape ends, c.known_sizes(2));
  Axes axes;
  for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (c.input(3) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(axes, c.known_ints(3));
  }
  TUTTI_ASSIGN_OR_RETURN(axes, normalized_axes(axes, x->rank()));
  Axes steps(axes.size(), 1);
  if (c.input(4) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(steps, c.known_ints(4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return invalid_argument("starts, ends, axes and steps have ", starts.size(), ", ", ends.size(),
                            ", ", axes.size(), " and ", steps.size(),
                            " elements; expected as many each");
  }
  Axes kept;
  Axes kept_steps;
  Shape kept_starts;
  Shape kept_ends;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = x->shape()[static_cast<std::size_t>(axes[i])];
    if (steps[i] == 0) return invalid_argument("step 0 on axis ", axes[i]);
    Range range = steps[i] > 0 ? Range{slice_start(starts[i], size), slice_end(ends[i], size)}
                               : backward_range(starts[i], ends[i], size);
    if (range.start.is(0) && range.end == size && steps[i] == 1) continue;
    // An empty range in one form: what follows need not think about ends before starts.
    const Dim span = steps[i] > 0 ? range.end - range.start : range.start - range.end;
    if (span.is_constant() && span.constant() < 0) range.end = range.start;
    kept.push_back(axes[i]);
    kept_steps.push_back(steps[i]);
    kept_starts.push_back(range.start);
    kept_ends.push_back(range.end);
  }
  if (kept.empty()) return finish(c, x);
  return finish(
      c,
      c.b.op(
          "Slice", {x},
          {{"axes", kept}, {"starts", kept_starts}, {"ends", kept_ends}, {"steps", kept_steps}}));
}

// --- Split ------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_split(const Node& node, int num_outputs) {
  const Value& x = *node.input(0);
  const std::int64_t axis = node.attr_int("axis");
  const Shape sizes = node.attr_dims("sizes");
  TUTTI_RETURN_IF_ERROR(check_axis(axis, x.rank()));
  if (sizes.size() != static_cast<std::size_t>(num_outputs)) {
    return invalid_argument("sizes ", sizes, " for ", num_outputs, " outputs");
  }
  Dim sum;
  std::vector<TensorType> types;
  for (const Dim& size : sizes) {
    if (size.is_constant() && size.constant() < 0) {
      return invalid_argument("sizes ", sizes, " have the negative number ", size);
    }
    sum = sum + size;
    TensorType type = x.type();
    type.shape[static_cast<std::size_t>(axis)] = size;
    types.push_back(std::move(type));
  }
  if (surely_differ(sum, x.shape()[static_cast<std::size_t>(axis)])) {
    return invalid_argument("sizes ", sizes, " add up to ", sum, "; expected ",
                            x.shape()[static_cast<std::size_t>(axis)]);
  }
  return types;
}

FactorMap factors_of_split(const Node& node) {
  FactorMap map = along_axes_factors(node, {node.attr_int("axis")});
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  if (map.inputs[0][axis].empty() || node.outputs().size() < 2) return map;
  FactorSum sum;
  sum.whole = map.inputs[0][axis][0];
  for (std::size_t o = 0; o < node.outputs().size(); ++o) {
    const Dim& size = node.output(o)->shape()[axis];
    sum.parts.push_back(add_part(&map, str_cat("part", o), size, &map.outputs[o][axis]));
  }
  map.sums.push_back(std::move(sum));
  return map;
}

Status lower_split(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, x->rank()));
  const Dim& whole = x->shape()[static_cast<std::size_t>(axis)];
  const auto count = static_cast<std::int64_t>(c.outputs.size());
  Shape sizes;
  if (c.input(1) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(sizes, c.known_sizes(1));
  } else {
    const std::int64_t pieces = c.attr_int("num_outputs", count);
    if (pieces != count) {
      return invalid_argument("num_outputs is ", pieces, " but the node has ", count, " outputs");
    }
    const Dim piece = ceil_div(whole, count);
    sizes.assign(static_cast<std::size_t>(count), piece);
    sizes.back() = whole - piece * Dim(count - 1);
    if (c.opset < 18 && sizes.back() != piece) {
      return invalid_argument("axis ", axis, " of ", x->type(), " does not divide into ", count);
    }
  }
  if (sizes.size() != c.outputs.size()) {
    return invalid_argument("split has ", sizes.size(), " sizes for ", count, " outputs");
  }
  if (x->symbolic()) {
    // Slices carry symbolic sizes; a node with several outputs does not.
    Dim start;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      c.outputs[i] = c.b.slice(x, {axis}, {start}, {start + sizes[i]});
      start = start + sizes[i];
    }
    return c.b.status();
  }
  c.outputs = c.b.ops("Split", {x}, {{"axis", axis}, {"sizes", sizes}}, static_cast<int>(count));
  return c.b.status();
}

// --- Concat -----------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_concat(const Node& node, int) {
  const std::int64_t axis = node.attr_int("axis");
  TensorType type = node.input(0)->type();
  TUTTI_RETURN_IF_ERROR(check_axis(axis, type.shape.size()));
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    const Shape& other = node.input(i)->shape();
    bool fits = other.size() == type.shape.size();
    for (std::size_t d = 0; fits && d < other.size(); ++d) {
      if (static_cast<std::int64_t>(d) == axis) {
        type.shape[d] = type.shape[d] + other[d];
      } else if (surely_differ(type.shape[d], other[d])) {
        fits = false;
      } else if (other[d].is_constant()) {
        type.shape[d] = other[d];
      }
    }
    if (!fits) {
      return invalid_argument("input ", i, " is ", node.input(i)->type(), ", which does not fit ",
                              node.input(0)->type(), " beside axis ", axis);
    }
  }
  return std::vector<TensorType>{type};
}

std::optional<std::vector<Dim>> joined_elements(const Node& node) {
  if (node.output()->rank() != 1) return std::nullopt;
  std::vector<Dim> out;
  for (const Value* input : node.inputs()) {
    if (!input->symbolic()) return std::nullopt;
    out.insert(out.end(), input->symbolic()->begin(), input->symbolic()->end());
  }
  return out;
}

FactorMap factors_of_concat(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const Shape& shape = node.output()->shape();
  map.outputs[0] = add_factors(&map, shape, {static_cast<std::int64_t>(axis)});
  FactorSum sum;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Shape& input = node.input(i)->shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d == axis) {
        sum.parts.push_back(add_part(&map, str_cat("i", i), input[d], &map.inputs[i][d]));
      } else {
        map.inputs[i][d] = map.outputs[0][d];
        // Sizes that are equal only once they are bound: no one knows how pieces would line up.
        if (input[d] != shape[d] && !map.outputs[0][d].empty()) {
          map.factors[static_cast<std::size_t>(map.outputs[0][d][0])].role = FactorRole::kWhole;
        }
      }
    }
  }
  if (node.inputs().size() > 1 && !map.outputs[0][axis].empty()) {
    sum.whole = map.outputs[0][axis][0];
    map.sums.push_back(std::move(sum));
  }
  return map;
}

Status lower_concat(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, std::max<std::size_t>(c.num_inputs(), 1)));
  if (!c.has("axis")) return invalid_argument("attribute 'axis' is missing");
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, c.input(0)->rank()));
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) {
    const Value& part = *c.input(i);
    const auto at = static_cast<std::size_t>(axis);
    const bool is_empty = part.rank() > at && part.shape()[at].is(0);
    if (!is_empty) parts.push_back(c.input(i));
  }
  if (parts.empty()) parts.push_back(c.input(0));
  if (parts.size() == 1) return finish(c, parts[0]);
  return finish(c, c.b.op("Concat", std::move(parts), {{"axis", axis}}));
}

// --- Pad --------------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_pad(const Node& node, int) {
  const Value& x = *node.input(0);
  const Axes axes = node.attr_ints("axes");
  const Shape before = node.attr_dims("before");
  const Shape after = node.attr_dims("after");
  const std::string mode = node.attr_string("mode", "constant");
  TUTTI_RETURN_IF_ERROR(check_axes(axes, x.rank()));
  if (before.size() != axes.size() || after.size() != axes.size()) {
    return invalid_argument("axes ", axes, ", before ", before, " and after ", after,
                            " differ in length");
  }
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return invalid_argument("mode '", mode, "'; expected constant, reflect, edge or wrap");
  }
  if (const Value* value = node.input(1)) {
    TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
    if (value->rank() != 0)
      return invalid_argument("the value is ", value->type(), "; expected a scalar");
  }
  Shape shape = x.shape();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = shape[static_cast<std::size_t>(axes[i])];
    for (const Dim& pad : {before[i], after[i]}) {
      if (!pad.is_constant()) continue;
      if (pad.constant() < 0) return invalid_argument("the negative pad ", pad);
      const bool reaches_past =
          mode == "reflect" && size.is_constant() && pad.constant() > 0 && size.constant() == 0;
      const bool from_nothing = mode != "constant" && size.is(0) && pad.constant() > 0;
      if (reaches_past || from_nothing) {
        return invalid_argument("pad ", pad, " in mode ", mode, " of axis ", axes[i], " of size ",
                                size);
      }
    }
    shape[static_cast<std::size_t>(axes[i])] = size + before[i] + after[i];
  }
  return one_type(x.dtype(), std::move(shape));
}

// Cuts what negative pads take away, then pads.
Value* pad(LoweringContext& c, Value* x, const Axes& axes, const Shape& before, const Shape& after,
           const std::string& mode, Value* value) {
  Axes cut_axes;
  Shape cut_starts;
  Shape cut_ends;
  Axes pad_axes;
  Shape pad_before;
  Shape pad_after;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = x->shape()[static_cast<std::size_t>(axes[i])];
    const bool cuts_front = counts_from_end(before[i]);
    const bool cuts_back = counts_from_end(after[i]);
    if (cuts_front || cuts_back) {
      cut_axes.push_back(axes[i]);
      cut_starts.push_back(cuts_front ? Dim(0) - before[i] : Dim(0));
      cut_ends.push_back(cuts_back ? size + after[i] : size);
    }
    const Dim front = cuts_front ? Dim(0) : before[i];
    const Dim back = cuts_back ? Dim(0) : after[i];
    if (front.is(0) && back.is(0)) continue;
    pad_axes.push_back(axes[i]);
    pad_before.push_back(front);
    pad_after.push_back(back);
  }
  if (!cut_axes.empty()) x = c.b.slice(x, cut_axes, cut_starts, cut_ends);
  if (pad_axes.empty()) return x;
  return c.b.op("Pad", {x, value},
                {{"axes", pad_axes}, {"before", pad_before}, {"after", pad_after}, {"mode", mode}});
}

Status lower_pad(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Shape pads, c.known_sizes(1));
  Axes axes;
  for (std::size_t i = 0; i < x->rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (c.input(3) != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(axes, c.known_ints(3));
    TUTTI_ASSIGN_OR_RETURN(axes, normalized_axes(axes, x->rank()));
  }
  if (pads.size() != 2 * axes.size()) {
    return invalid_argument("pads has ", pads.size(), " elements for ", axes.size(),
                            " axes; expected ", 2 * axes.size());
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes.size());
  const std::string mode = c.attr_string("mode", "constant");
  Value* value = mode == "constant" ? c.input(2) : nullptr;
  if (value != nullptr) value = reshape_to(c.b, value, {});
  return finish(
      c, pad(c, x, axes, Shape(pads.begin(), middle), Shape(middle, pads.end()), mode, value));
}

// Crops or pads with zeros around the centre, axis by axis.
Status lower_center_crop_pad(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const Axes target, c.known_ints(1));
  Axes axes;
  for (std::size_t i = 0; i < x->rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (c.has("axes")) {
    TUTTI_ASSIGN_OR_RETURN(axes, normalized_axes(c.attr_ints("axes"), x->rank()));
  }
  if (target.size() != axes.size()) {
    return invalid_argument("shape has ", target.size(), " elements for ", axes.size(), " axes");
  }
  Shape before;
  Shape after;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = x->shape()[static_cast<std::size_t>(axes[i])];
    if (!size.is_constant()) {
      return unimplemented("axis ", axes[i], " has the symbolic size ", size,
                           "; expected a number");
    }
    const std::int64_t grow = target[i] - size.constant();
    const std::int64_t front = grow >= 0 ? grow / 2 : -(-grow / 2);
    before.emplace_back(front);
    after.emplace_back(grow - front);
  }
  return finish(c, pad(c, x, axes, before, after, "constant", nullptr));
}

}  // namespace

Dim slice_start(const Dim& start, const Dim& size) {
  const Dim at = counts_from_end(start) ? start + size : start;
  if (at.is_constant() && at.constant() < 0) return 0;
  return smaller(at, size).value_or(at.is_constant() && at.constant() >= kHuge ? size : at);
}

Dim slice_end(const Dim& end, const Dim& size) {
  const Dim at = counts_from_end(end) ? end + size : end;
  if (at.is_constant() && at.constant() < 0) return 0;
  if (const auto less = smaller(at, size)) return *less;
  if (at.is_constant()) return at.constant() >= kHuge ? size : min(at, size);
  return at;
}

void register_slice_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef slice;
  slice.type = "Slice";
  slice.domain = "ai.tutti";
  slice.attributes = {{"axes", AttributeKind::kInts, true},
                      {"starts", AttributeKind::kDims, true},
                      {"ends", AttributeKind::kDims, true},
                      {"steps", AttributeKind::kInts, true}};
  slice.infer = infer_slice;
  slice.symbolic = sliced_elements;
  slice.factors = slice_factors;
  slice.piece_attributes = slice_piece_attributes;
  ops->add(std::move(slice));

  OpDef split;
  split.type = "Split";
  split.domain = "ai.tutti";
  split.num_outputs = kVariadic;
  split.attributes = {{"axis", AttributeKind::kInt, true}, {"sizes", AttributeKind::kDims, true}};
  split.infer = infer_split;
  split.factors = factors_of_split;
  ops->add(std::move(split));

  OpDef concat;
  concat.type = "Concat";
  concat.max_inputs = kVariadic;
  concat.attributes = {{"axis", AttributeKind::kInt, true}};
  concat.infer = infer_concat;
  concat.symbolic = joined_elements;
  concat.factors = factors_of_concat;
  ops->add(std::move(concat));

  OpDef pad;
  pad.type = "Pad";
  pad.domain = "ai.tutti";
  pad.max_inputs = 2;
  pad.attributes = {{"axes", AttributeKind::kInts, true},
                    {"before", AttributeKind::kDims, true},
                    {"after", AttributeKind::kDims, true},
                    {"mode", AttributeKind::kString, false}};
  pad.infer = infer_pad;
  pad.factors = pad_factors;
  pad.piece_attributes = pad_piece_attributes;
  ops->add(std::move(pad));

  add_lowering(lowerings, "Slice", lower_slice);
  add_lowering(lowerings, "Split", lower_split, {"axis", "num_outputs"});
  add_lowering(lowerings, "Concat", lower_concat, {"axis"});
  add_lowering(lowerings, "Pad", lower_pad, {"mode"});
  add_lowering(lowerings, "CenterCropPad", lower_center_crop_pad, {"axes"});
}

}  // namespace tutti
