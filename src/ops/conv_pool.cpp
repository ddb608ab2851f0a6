// The core operator Pool, and ONNX's pooling operators.
#include <algorithm>

#include "ops/common.h"
#include "ops/conv.h"

namespace tutti {
namespace {

Result<Window> pool_window(const Node& node) {
  return make_window(node.attr_ints("kernel_shape"), node.attr_ints("strides"),
                     node.attr_ints("dilations"), node.attr_ints("pads"));
}

Result<std::vector<TensorType>> infer_pool(const Node& node, int /*num_outputs*/) {
  const Value& x = *node.input(0);
  const std::string kind = node.attr_string("kind");
  if (kind != "max" && kind != "average" && kind != "lp") {
    return invalid_argument("attribute 'kind' is '", kind, "'; expected max, average or lp");
  }
  if (kind != "max") TUTTI_RETURN_IF_ERROR(check_floating(x, "input"));
  if (x.dtype() == DType::kBool)
    return invalid_argument("input is ", x.type(), "; expected numbers");
  TUTTI_ASSIGN_OR_RETURN(const Window window, pool_window(node));
  if (window.kernel.empty() || x.rank() != window.kernel.size() + 2) {
    return invalid_argument("input is ", x.type(), ", but 'kernel_shape' is ", window.kernel);
  }
  if (kind == "lp" && node.attr_int("p", 2) < 1) {
    return invalid_argument("attribute 'p' is ", node.attr_int("p", 2), "; expected 1 or more");
  }
  Shape shape{x.shape()[0], x.shape()[1]};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const Dim stride(window.strides[i]);
    const Dim& size = x.shape()[i + 2];
    const Dim room = size + Dim(window.pad_sum(i) - window.extent(i));
    if (room.is_constant() && room.constant() < 0) {
      return invalid_argument("input ", x.type(), " is smaller than the kernel ", window.kernel);
    }
    if (window.pads[i] >= window.extent(i) ||
        window.pads[i + window.kernel.size()] >= window.extent(i)) {
      return invalid_argument("attribute 'pads' is ", window.pads,
                              "; expected less than the kernel ", window.kernel, " everywhere");
    }
    if (node.attr_int("ceil_mode") != 0 && window.strides[i] != 1) {
      // No window may start behind the input and its first padding.
      shape.push_back(min(ceil_div(room, stride) + Dim(1),
                          floor_div(size + Dim(window.pads[i] - 1), stride) + Dim(1)));
    } else {
      shape.push_back(floor_div(room, stride) + Dim(1));
    }
  }
  return one_type(x.dtype(), std::move(shape));
}

// No output size is rounded up.
bool rounds_down(const Node& node, const Window& window) {
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const Dim room = node.input(0)->shape()[i + 2] + Dim(window.pad_sum(i) - window.extent(i));
    const Dim size = floor_div(room, Dim(window.strides[i])) + Dim(1);
    if (node.output()->shape()[i + 2] != size) return false;
  }
  return true;
}

// Padding is what a window reads past the edges: nothing for a maximum, zeros otherwise, but for an
// average that does not count it, whose divisor depends on where the window lies.
bool may_split(const Node& node, const Window& window, std::size_t i) {
  return node.attr_string("kind") != "average" || node.attr_int("count_include_pad") != 0 ||
         window.pad_sum(i) == 0;
}

FactorMap pool_factors(const Node& node) {
  Axes spatial;
  for (std::size_t d = 2; d < node.input(0)->rank(); ++d)
    spatial.push_back(static_cast<std::int64_t>(d));
  FactorMap map = along_axes_factors(node, spatial);
  const auto window = pool_window(node);
  if (!window.ok() || !rounds_down(node, *window)) return map;
  const WindowEdge edge =
      node.attr_string("kind") == "max" ? WindowEdge::kLowest : WindowEdge::kZero;
  for (std::size_t i = 0; i < window->kernel.size(); ++i) {
    if (!may_split(node, *window, i)) continue;
    add_window_factors(&map, i + 2, node.input(0)->shape()[i + 2], node.output()->shape()[i + 2],
                       {window->strides[i], Dim(-window->pads[i]), window->extent(i), edge});
  }
  return map;
}

AttributeMap pool_piece_attributes(const Node& node, const NodePiece& piece) {
  AttributeMap attributes = node.attributes();
  const auto window = pool_window(node);
  if (!window.ok()) return attributes;
  const auto is_split = [](bool windowed) { return windowed; };
  if (std::none_of(piece.is_windowed.begin(), piece.is_windowed.end(), is_split)) return attributes;
  std::vector<std::int64_t> pads = window->pads;
  const std::size_t rank = window->kernel.size();
  for (std::size_t i = 0; i < rank; ++i) {
    if (piece.is_windowed[i + 2]) pads[i] = pads[i + rank] = 0;
  }
  attributes["pads"] = std::move(pads);
  attributes["ceil_mode"] = std::int64_t{0};  // nothing was to be rounded up
  return attributes;
}

Dim pool_flops(const Node& node) {
  Dim out = product(node.output()->shape());
  for (const std::int64_t size : node.attr_ints("kernel_shape")) out = out * Dim(size);
  return out;
}

Status lower_pool(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const Value& x = *c.input(0);
  if (c.outputs.size() > 1) {
    return unimplemented("output 1 (Indices) of MaxPool; remove it or use one output");
  }
  if (c.attr_int("storage_order", 0) != 0) {
    return unimplemented("attribute 'storage_order' is ", c.attr_int("storage_order", 0),
                         "; expected 0");
  }
  if (x.rank() != c.attr_ints("kernel_shape").size() + 2) {
    return invalid_argument("input 0 is ", x.type(), ", but 'kernel_shape' is ",
                            c.attr_ints("kernel_shape"));
  }
  TUTTI_ASSIGN_OR_RETURN(Window window,
                         make_window(c.attr_ints("kernel_shape"), c.attr_ints("strides"),
                                     c.attr_ints("dilations"), c.attr_ints("pads")));
  TUTTI_ASSIGN_OR_RETURN(window.pads, resolve_auto_pad(c, x, window));
  AttributeMap attributes{{"kernel_shape", window.kernel},
                          {"strides", window.strides},
                          {"pads", window.pads},
                          {"dilations", window.dilations},
                          {"ceil_mode", c.attr_int("ceil_mode", 0)},
                          {"count_include_pad", c.attr_int("count_include_pad", 0)}};
  if (c.op_type == "LpPool") {
    attributes["kind"] = std::string("lp");
    attributes["p"] = c.attr_int("p", 2);
  } else {
    attributes["kind"] = std::string(c.op_type == "MaxPool" ? "max" : "average");
  }
  return finish(c, c.b.op("Pool", {c.input(0)}, std::move(attributes)));
}

Status lower_global_pool(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.input(0)->rank() < 2) {
    return invalid_argument("input 0 is ", c.input(0)->type(), "; expected [n, c, ..]");
  }
  std::string kind = c.op_type == "GlobalMaxPool" ? "max" : "mean";
  if (c.op_type == "GlobalLpPool") {
    const std::int64_t p = c.attr_int("p", 2);
    if (p != 1 && p != 2) return unimplemented("attribute 'p' is ", p, "; expected 1 or 2");
    kind = p == 1 ? "l1" : "l2";
  }
  Axes axes;
  for (std::size_t d = 2; d < c.input(0)->rank(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  if (axes.empty()) return finish(c, c.input(0));
  return finish(c,
                c.b.op("Reduce", {c.input(0)},
                       {{"kind", std::move(kind)}, {"axes", axes}, {"keepdims", std::int64_t{1}}}));
}

}  // namespace

void register_pool_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  ops->add({.type = "Pool",
            .domain = "ai.tutti",
            .attributes = {{"kind", AttributeKind::kString, true},
                           {"kernel_shape", AttributeKind::kInts, true},
                           {"strides", AttributeKind::kInts},
                           {"pads", AttributeKind::kInts},
                           {"dilations", AttributeKind::kInts},
                           {"ceil_mode", AttributeKind::kInt},
                           {"count_include_pad", AttributeKind::kInt},
                           {"p", AttributeKind::kInt}},
            .infer = infer_pool,
            .factors = pool_factors,
            .piece_attributes = pool_piece_attributes,
            .flops = pool_flops});
  const std::vector<std::string> shared = {"auto_pad",     "ceil_mode", "dilations",
                                           "kernel_shape", "pads",      "strides"};
  const auto add = [&](std::string type, std::vector<std::string> more) {
    more.insert(more.end(), shared.begin(), shared.end());
    lowerings->add({.domain = "",
                    .op_type = std::move(type),
                    .attributes = std::move(more),
                    .lower = lower_pool});
  };
  add("MaxPool", {"storage_order"});
  add("AveragePool", {"count_include_pad"});
  add("LpPool", {"p"});
  for (const char* type : {"GlobalAveragePool", "GlobalMaxPool"}) {
    lowerings->add({.domain = "", .op_type = type, .lower = lower_global_pool});
  }
  lowerings->add(
      {.domain = "", .op_type = "GlobalLpPool", .attributes = {"p"}, .lower = lower_global_pool});
}

}  // namespace tutti
