// The layout rules of Slice and Pad: their rows along a cut or padded axis are windows of one row.
#include <algorithm>

#include "ops/movement.h"

namespace tutti {
namespace {

// Output 0's rows of dimension d are the rows of input 0's that `window` names. Both dimensions may
// have a factor alone already; one that is there is kept.
void add_moved_rows(FactorMap* map, const Node& node, std::size_t d, WindowMap window) {
  const Dim& in = node.input(0)->shape()[d];
  const Dim& out = node.output()->shape()[d];
  std::vector<int>& from = map->inputs[0][d];
  std::vector<int>& to = map->outputs[0][d];
  if (in.is(1) || out.is(1) || from == to) return;  // whole, as `map` has them
  if (to.empty()) to = {map->add(str_cat("y", d), out)};
  map->factors[static_cast<std::size_t>(to[0])].role = FactorRole::kWindow;
  map->windows.push_back({from[0], to[0], std::move(window)});
}

// The sliced dimension is what is cut off in front, what stays and what is cut off behind.
void add_slice_sum(FactorMap* map, const Node& node, std::size_t d, const Dim& start,
                   const Dim& end) {
  const Dim& size = node.input(0)->shape()[d];
  if (size.is(1) || end - start == size) return;
  FactorSum sum;
  sum.whole = map->inputs[0][d][0];
  if (!start.is(0)) sum.parts.push_back(add_part(map, "front", start, nullptr));
  sum.parts.push_back(add_part(map, "kept", end - start, &map->outputs[0][d]));
  if (end != size) sum.parts.push_back(add_part(map, "back", size - end, nullptr));
  map->sums.push_back(std::move(sum));
}

// What stands around a Pad; nullopt for a number other than 0.
std::optional<WindowEdge> pad_edge(const Node& node) {
  const std::string mode = node.attr_string("mode", "constant");
  if (mode != "constant") return parse_window_edge(mode);
  const Value* value = node.input(1);
  if (value == nullptr) return WindowEdge::kZero;
  if (!value->is_constant()) return std::nullopt;
  const std::byte* data = value->constant().data();
  const bool is_zero = std::all_of(data, data + value->constant().byte_size(),
                                   [](std::byte byte) { return byte == std::byte{0}; });
  return is_zero ? std::optional(WindowEdge::kZero) : std::nullopt;
}

}  // namespace

int add_part(FactorMap* map, const std::string& name, const Dim& size, std::vector<int>* dim) {
  const int factor = map->add(name, size, FactorRole::kWhole);
  if (dim != nullptr) *dim = {factor};
  return factor;
}

// Along a sliced axis, the whole may be cut in segments, one of which stays; or rows of what stays
// are windows of one row.
FactorMap slice_factors(const Node& node) {
  const Axes axes = node.attr_ints("axes");
  const Axes steps = node.attr_ints("steps");
  const Shape starts = node.attr_dims("starts");
  const Shape ends = node.attr_dims("ends");
  FactorMap map = along_axes_factors(node, axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    if (steps[i] < 1) continue;
    if (steps[i] == 1) add_slice_sum(&map, node, d, starts[i], ends[i]);
    add_moved_rows(&map, node, d, {steps[i], starts[i], 1, WindowEdge::kZero});
  }
  return map;
}

AttributeMap slice_piece_attributes(const Node& node, const NodePiece& piece) {
  const Axes all_axes = node.attr_ints("axes");
  const Axes all_steps = node.attr_ints("steps");
  Axes axes;
  Axes steps;
  Shape starts;
  Shape ends;
  for (std::size_t i = 0; i < all_axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(all_axes[i]);
    const bool is_windowed = piece.is_windowed[d];
    if (is_windowed && all_steps[i] == 1) continue;  // the rows have come
    axes.push_back(all_axes[i]);
    steps.push_back(all_steps[i]);
    starts.push_back(is_windowed ? Dim(0) : node.attr_dims("starts")[i]);
    ends.push_back(is_windowed ? piece.output[d] * Dim(all_steps[i]) : node.attr_dims("ends")[i]);
  }
  return {{"axes", std::move(axes)},
          {"steps", std::move(steps)},
          {"starts", std::move(starts)},
          {"ends", std::move(ends)}};
}

FactorMap pad_factors(const Node& node) {
  const Axes axes = node.attr_ints("axes");
  const Shape before = node.attr_dims("before");
  FactorMap map = along_axes_factors(node, axes);
  const auto edge = pad_edge(node);
  if (!edge) return map;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    add_moved_rows(&map, node, static_cast<std::size_t>(axes[i]),
                   {1, Dim(0) - before[i], 1, *edge});
  }
  return map;
}

AttributeMap pad_piece_attributes(const Node& node, const NodePiece& piece) {
  const Axes all_axes = node.attr_ints("axes");
  AttributeMap attributes = node.attributes();
  Axes axes;
  Shape before;
  Shape after;
  for (std::size_t i = 0; i < all_axes.size(); ++i) {
    if (piece.is_windowed[static_cast<std::size_t>(all_axes[i])]) continue;
    axes.push_back(all_axes[i]);
    before.push_back(node.attr_dims("before")[i]);
    after.push_back(node.attr_dims("after")[i]);
  }
  attributes["axes"] = std::move(axes);
  attributes["before"] = std::move(before);
  attributes["after"] = std::move(after);
  return attributes;
}

}  // namespace tutti
