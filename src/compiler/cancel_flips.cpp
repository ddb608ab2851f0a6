// Rows that are turned around, convolved, and turned back are convolved by a kernel that is turned
// around. Where a model runs a causal convolution backwards, pieces of the rows then need those of
// their neighbours instead of all.
#include <algorithm>
#include <optional>

#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// The dimension whose rows a Slice turns around, all of them; -1: it does something else.
std::int64_t flipped_axis(const Node& node) {
  if (node.type() != "Slice") return -1;
  const auto axes = node.attr_ints("axes");
  if (axes.size() != 1 || node.attr_ints("steps")[0] != -1) return -1;
  const auto axis = static_cast<std::size_t>(axes[0]);
  return node.output()->shape()[axis] == node.input(0)->shape()[axis] ? axes[0] : -1;
}

// Spatial attributes with their defaults, `count` of them for each dimension of space.
std::vector<std::int64_t> spatial(const Node& conv, std::string_view name, std::size_t count,
                                  std::int64_t fallback) {
  std::vector<std::int64_t> list = conv.attr_ints(name);
  if (list.empty()) list.resize(count * (conv.input(0)->rank() - 2), fallback);
  return list;
}

std::int64_t kernel_size(const Node& conv, std::size_t d) {
  return conv.input(1)->shape()[d + 2].constant();
}

bool has_constant_kernel(const Node& conv) {
  return conv.type() == "Conv" && conv.input(1)->is_constant() &&
         std::all_of(conv.inputs().begin() + 2, conv.inputs().end(),
                     [](const Value* v) { return v == nullptr || v->is_constant(); });
}

// What stands between two flips, from the second one back: Transposes and convolutions along the
// flipped dimension, each for the next one alone. Empty where there is no such first flip.
struct Flipped {
  const Value* rows = nullptr;      // in front of the first flip
  std::vector<const Node*> middle;  // in order
  std::vector<std::int64_t> axes;   // flipped in each one's operand
};

std::optional<Flipped> between_flips(const Graph& graph, const Node& last) {
  Flipped found;
  std::int64_t axis = flipped_axis(last);
  if (axis < 0) return std::nullopt;
  for (const Value* value = last.input(0);;) {
    const Node* node = value->producer();
    if (node == nullptr || !has_single_use(graph, value)) return std::nullopt;
    if (flipped_axis(*node) == axis) {
      found.rows = node->input(0);
      return found.middle.empty() ? std::nullopt : std::optional(std::move(found));
    }
    if (node->type() == "Transpose") {
      axis = node->attr_ints("perm")[static_cast<std::size_t>(axis)];
    } else if (!has_constant_kernel(*node) || axis < 2 ||
               spatial(*node, "strides", 1, 1)[static_cast<std::size_t>(axis - 2)] != 1) {
      return std::nullopt;
    }
    found.middle.insert(found.middle.begin(), node);
    found.axes.insert(found.axes.begin(), axis);
    value = node->input(0);
  }
}

// The convolution of rows the other way round.
Value* turned(GraphBuilder& b, const Node& conv, Value* rows, std::int64_t axis) {
  const auto d = static_cast<std::size_t>(axis - 2);
  std::vector<std::int64_t> pads = spatial(conv, "pads", 2, 0);
  std::swap(pads[d], pads[d + pads.size() / 2]);
  AttributeMap attributes = conv.attributes();
  attributes["pads"] = std::move(pads);
  std::vector<Value*> inputs = conv.inputs();
  inputs[0] = rows;
  inputs[1] = b.op("Slice", {conv.input(1)},
                   {{"axes", std::vector<std::int64_t>{axis}},
                    {"starts", Shape{Dim(kernel_size(conv, d) - 1)}},
                    {"ends", Shape{Dim(-1)}},
                    {"steps", std::vector<std::int64_t>{-1}}});
  return b.op("Conv", std::move(inputs), std::move(attributes));
}

Value* without_flips(GraphBuilder& b, const Graph& graph, const Node& last) {
  const auto flipped = between_flips(graph, last);
  if (!flipped) return nullptr;
  Value* value = const_cast<Value*>(flipped->rows);
  for (std::size_t i = 0; i < flipped->middle.size(); ++i) {
    const Node& node = *flipped->middle[i];
    value = node.type() == "Conv" ? turned(b, node, value, flipped->axes[i])
                                  : b.op("Transpose", {value}, node.attributes());
  }
  return value;
}

}  // namespace

Status cancel_flips(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    Value* y = without_flips(b, graph, node);
    TUTTI_RETURN_IF_ERROR(b.status());
    if (y != nullptr) replace_value(graph, node.output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
