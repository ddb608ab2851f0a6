// Padding that a model writes as nodes of its own. The first or last row of an axis repeated beside
// the value is a Pad of mode edge (what exporters make of causal convolutions that repeat the first
// frame); a Pad with zeros of space is the padding of the convolution that reads it.
#include <algorithm>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// `value` is row `row` of x along `axis`, as a slice of one row.
bool is_row(const Value* value, const Value* x, std::int64_t axis, const Dim& row) {
  const Node* slice = producer_of(value, "Slice");
  return slice != nullptr && slice->input(0) == x &&
         slice->attr_ints("axes") == std::vector<std::int64_t>{axis} &&
         slice->attr_dims("starts")[0] == row &&
         slice->output()->shape()[static_cast<std::size_t>(axis)].is(1);
}

bool differs_only_along(const Shape& a, const Shape& b, std::int64_t axis) {
  if (a.size() != b.size()) return false;
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (static_cast<std::int64_t>(d) != axis && a[d] != b[d]) return false;
  }
  return true;
}

// `value` repeats row `row` of x along `axis` and is nothing else.
bool repeats_row(const Value* value, const Value* x, std::int64_t axis, const Dim& row) {
  if (is_row(value, x, axis, row)) return true;
  const Node* node = value->producer();
  if (node == nullptr) return false;
  if (node->type() == "Expand" || node->type() == "Tile") {
    return differs_only_along(value->shape(), node->input(0)->shape(), axis) &&
           is_row(node->input(0), x, axis, row);
  }
  return node->type() == "Concat" && node->attr_int("axis") == axis &&
         std::all_of(node->inputs().begin(), node->inputs().end(),
                     [&](const Value* part) { return repeats_row(part, x, axis, row); });
}

bool is_zero(const Value* value) {
  if (value->is_constant()) {
    const std::byte* data = value->constant().data();
    return std::all_of(data, data + value->constant().byte_size(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  }
  const Node* fill = producer_of(value, "Fill");
  return fill != nullptr && fill->input(0) != nullptr && fill->input(0)->is_constant() &&
         is_zero(fill->input(0));
}

// The Concat's operand `at` with everything beside it as a Pad of that mode; null: it is none.
Value* as_pad(GraphBuilder& b, const Node& concat, std::size_t at, const std::string& mode) {
  const std::int64_t axis = concat.attr_int("axis");
  const auto d = static_cast<std::size_t>(axis);
  Value* x = concat.input(at);
  Dim before;
  Dim after;
  for (std::size_t i = 0; i < concat.inputs().size(); ++i) {
    if (i == at) continue;
    const Value* part = concat.input(i);
    const Dim row = i < at ? Dim(0) : x->shape()[d] - Dim(1);
    const bool fits = mode == "edge" ? repeats_row(part, x, axis, row) : is_zero(part);
    if (!fits) return nullptr;
    Dim& pad = i < at ? before : after;
    pad = pad + part->shape()[d];
  }
  return b.op("Pad", {x},
              {{"axes", std::vector<std::int64_t>{axis}},
               {"before", Shape{before}},
               {"after", Shape{after}},
               {"mode", mode}});
}

Value* pad_of_concat(GraphBuilder& b, const Node& concat) {
  if (concat.inputs().size() < 2) return nullptr;
  for (const char* mode : {"edge", "constant"}) {
    for (std::size_t at = 0; at < concat.inputs().size(); ++at) {
      if (concat.input(at)->is_constant()) continue;
      if (Value* pad = as_pad(b, concat, at, mode)) return pad;
    }
  }
  return nullptr;
}

// A convolution of what the Pad pads, with the Pad's zeros among its own.
Value* padded_conv(GraphBuilder& b, const Node& conv) {
  const Node* pad = producer_of(conv.input(0), "Pad");
  if (pad == nullptr || pad->attr_string("mode", "constant") != "constant") return nullptr;
  if (pad->input(1) != nullptr && !(pad->input(1)->is_constant() && is_zero(pad->input(1)))) {
    return nullptr;
  }
  const std::size_t space = pad->output()->rank() - 2;
  std::vector<std::int64_t> pads = conv.attr_ints("pads");
  pads.resize(2 * space, 0);
  const auto axes = pad->attr_ints("axes");
  const Shape before = pad->attr_dims("before");
  const Shape after = pad->attr_dims("after");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 2 || !before[i].is_constant() || !after[i].is_constant()) return nullptr;
    const auto at = static_cast<std::size_t>(axes[i] - 2);
    pads[at] += before[i].constant();
    pads[at + space] += after[i].constant();
  }
  std::vector<Value*> inputs = conv.inputs();
  inputs[0] = pad->input(0);
  AttributeMap attributes = conv.attributes();
  attributes["pads"] = std::move(pads);
  return b.op("Conv", std::move(inputs), std::move(attributes));
}

// A convolution of which only some rows are kept (padded on both sides and cut to be causal), with
// less padding instead.
Value* trimmed_conv(GraphBuilder& b, const Graph& graph, const Node& slice) {
  const Node* conv = producer_of(slice.input(0), "Conv");
  if (conv == nullptr || !has_single_use(graph, slice.input(0))) return nullptr;
  const Shape& shape = conv->output()->shape();
  const std::size_t space = shape.size() - 2;
  std::vector<std::int64_t> pads = conv->attr_ints("pads");
  std::vector<std::int64_t> strides = conv->attr_ints("strides");
  pads.resize(2 * space, 0);
  strides.resize(space, 1);
  const auto axes = slice.attr_ints("axes");
  const auto steps = slice.attr_ints("steps");
  const Shape starts = slice.attr_dims("starts");
  const Shape ends = slice.attr_dims("ends");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 2 || steps[i] != 1) return nullptr;
    const auto at = static_cast<std::size_t>(axes[i] - 2);
    const Dim behind = shape[at + 2] - ends[i];
    if (strides[at] != 1 || !starts[i].is_constant() || !behind.is_constant()) return nullptr;
    pads[at] -= starts[i].constant();
    pads[at + space] -= behind.constant();
    if (pads[at] < 0 || pads[at + space] < 0) return nullptr;
  }
  AttributeMap attributes = conv->attributes();
  attributes["pads"] = std::move(pads);
  return b.op("Conv", conv->inputs(), std::move(attributes));
}

}  // namespace

Status fuse_pad(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    Value* y = nullptr;
    if (node.type() == "Concat") y = pad_of_concat(b, node);
    if (node.type() == "Conv") y = padded_conv(b, node);
    if (node.type() == "Slice") y = trimmed_conv(b, graph, node);
    TUTTI_RETURN_IF_ERROR(b.status());
    if (y != nullptr) replace_value(graph, node.output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
