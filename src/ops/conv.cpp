// The core operators Conv and ConvTranspose. Lowerings are in conv_lowering.cpp, pooling in
// conv_pool.cpp, Resize in conv_resize.cpp.
#include "ops/conv.h"

#include <algorithm>

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

Status check_conv_operands(const Node& node) {
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  const Value& x = *node.input(0);
  const Value& w = *node.input(1);
  if (!is_floating(x.dtype()) && x.dtype() != DType::kInt32) {
    return invalid_argument("input has element type ", dtype_name(x.dtype()),
                            "; expected a floating-point type or i32");
  }
  if (x.rank() < 3 || x.rank() > 5) {
    return invalid_argument("input is ", x.type(),
                            "; expected [n, c, ..] with 1 to 3 spatial dimensions");
  }
  if (w.rank() != x.rank()) {
    return invalid_argument("weight is ", w.type(), "; expected rank ", x.rank());
  }
  return {};
}

Status check_bias(const Node& node, const Dim& channels) {
  const Value* bias = node.input(2);
  if (bias == nullptr || (bias->rank() == 1 && !surely_differ(bias->shape()[0], channels)))
    return {};
  return invalid_argument("bias is ", bias->type(), "; expected [", channels, "]");
}

Result<Window> node_window(const Node& node) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<std::int64_t> kernel,
                         constant_sizes(*node.input(1), 2, "kernel"));
  return make_window(std::move(kernel), node.attr_ints("strides"), node.attr_ints("dilations"),
                     node.attr_ints("pads"));
}

Status check_output_size(const Dim& size, const Value& x) {
  if (!size.is_constant() || size.constant() >= 0) return {};
  return invalid_argument("input ", x.type(),
                          " is smaller than the kernel: an output size would be ", size);
}

Result<std::vector<TensorType>> infer_conv(const Node& node, int /*num_outputs*/) {
  TUTTI_RETURN_IF_ERROR(check_conv_operands(node));
  const Value& x = *node.input(0);
  const Value& w = *node.input(1);
  TUTTI_ASSIGN_OR_RETURN(const Window window, node_window(node));
  const std::int64_t group = node.attr_int("group", 1);
  const Dim& out_channels = w.shape()[0];
  if (group < 1 || surely_differ(x.shape()[1], w.shape()[1] * Dim(group)) ||
      (out_channels.is_constant() && out_channels.constant() % group != 0)) {
    return invalid_argument("weight ", w.type(), " with group ", group, " does not fit input ",
                            x.type());
  }
  TUTTI_RETURN_IF_ERROR(check_bias(node, out_channels));
  Shape shape{x.shape()[0], out_channels};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const Dim room = x.shape()[i + 2] + Dim(window.pad_sum(i) - window.extent(i));
    Dim size = floor_div(room, Dim(window.strides[i])) + Dim(1);
    TUTTI_RETURN_IF_ERROR(check_output_size(size, x));
    shape.push_back(std::move(size));
  }
  return one_type(x.dtype(), std::move(shape));
}

Result<std::vector<TensorType>> infer_conv_transpose(const Node& node, int /*num_outputs*/) {
  TUTTI_RETURN_IF_ERROR(check_conv_operands(node));
  const Value& x = *node.input(0);
  const Value& w = *node.input(1);
  TUTTI_ASSIGN_OR_RETURN(const Window window, node_window(node));
  const std::int64_t group = node.attr_int("group", 1);
  const Dim& in_channels = w.shape()[0];
  if (group < 1 || surely_differ(x.shape()[1], in_channels) ||
      (in_channels.is_constant() && in_channels.constant() % group != 0)) {
    return invalid_argument("weight ", w.type(), " with group ", group, " does not fit input ",
                            x.type());
  }
  const Dim out_channels = w.shape()[1] * Dim(group);
  TUTTI_RETURN_IF_ERROR(check_bias(node, out_channels));
  std::vector<std::int64_t> extra = node.attr_ints("output_padding");
  if (extra.empty()) extra.assign(window.kernel.size(), 0);
  if (extra.size() != window.kernel.size()) {
    return invalid_argument("attribute 'output_padding' is ", extra, "; expected ",
                            window.kernel.size(), " numbers");
  }
  Shape shape{x.shape()[0], out_channels};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    if (extra[i] < 0 || extra[i] > (1 << 24)) {
      return invalid_argument("attribute 'output_padding' is ", extra,
                              "; expected numbers from 0 to 2^24");
    }
    Dim size = (x.shape()[i + 2] - Dim(1)) * Dim(window.strides[i]) +
               Dim(window.extent(i) + extra[i] - window.pad_sum(i));
    TUTTI_RETURN_IF_ERROR(check_output_size(size, x));
    shape.push_back(std::move(size));
  }
  return one_type(x.dtype(), std::move(shape));
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

WindowMap conv_window(const Window& w, std::size_t i) {
  return {w.strides[i], Dim(-w.pads[i]), w.extent(i), WindowEdge::kZero};
}

// Input row j reaches output rows [j * stride - pad, j * stride - pad + extent). So a group of
// `stride` output rows reads the inputs from the first that reaches into it to the last that does.
WindowMap transposed_window(const Window& w, std::size_t i) {
  const std::int64_t stride = w.strides[i];
  const std::int64_t pad = w.pads[i];
  // No later than pad / stride: what the piece drops at its front is not negative.
  const std::int64_t first =
      std::min(-floor_quotient(w.extent(i) - 1 - pad, stride), floor_quotient(pad, stride));
  const std::int64_t last = floor_quotient(stride - 1 + pad, stride);
  return {1, Dim(first), last - first + 1, WindowEdge::kZero};
}

// A window's rows come with zeros for the padding, so the piece pads them no more.
AttributeMap conv_piece_attributes(const Node& node, const NodePiece& piece) {
  AttributeMap attributes = node.attributes();
  if (const std::int64_t group = node.attr_int("group", 1); group != 1) {
    const Dim each = floor_div(node.output()->shape()[1], Dim(group));
    const auto held = exact_div(piece.output[1], each);
    if (held && held->is_constant()) attributes["group"] = held->constant();
  }
  const auto window = node_window(node);
  if (!window.ok()) return attributes;
  const std::size_t rank = window->kernel.size();
  std::vector<std::int64_t> pads = window->pads;
  std::vector<std::int64_t> extra = node.attr_ints("output_padding");
  extra.resize(rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    if (!piece.is_windowed[i + 2]) continue;
    pads[i] = pads[i + rank] = 0;
    if (node.type() == "Conv") continue;
    const WindowMap map = transposed_window(*window, i);
    pads[i] = window->pads[i] - map.offset.constant() * window->strides[i];
    const std::int64_t surplus =
        (map.extent - 2) * window->strides[i] + window->extent(i) - pads[i];
    pads[i + rank] = std::max<std::int64_t>(surplus, 0);
    extra[i] = std::max<std::int64_t>(-surplus, 0);
  }
  attributes["pads"] = std::move(pads);
  if (node.type() == "ConvTranspose") attributes["output_padding"] = std::move(extra);
  return attributes;
}

// Groups of channels, each with its own weights, are one factor; a channel of a group follows it.
void add_group_factors(const Node& node, FactorMap* map) {
  const Dim group = node.attr_int("group");
  const int groups = map->add("g", group);
  const auto channels = [&](std::string name, const Dim& size) {
    std::vector<int> dim = {groups};
    if (size != group)
      dim.push_back(map->add(std::move(name), floor_div(size, group), FactorRole::kWhole));
    return dim;
  };
  map->inputs[0][1] = channels("c", node.input(0)->shape()[1]);
  map->outputs[0][1] = channels("o", node.output()->shape()[1]);
  const bool is_transposed = node.type() == "ConvTranspose";
  const Dim& rest = node.input(1)->shape()[1];
  map->inputs[1][0] = is_transposed ? map->inputs[0][1] : map->outputs[0][1];
  if (!rest.is(1)) map->inputs[1][1] = {map->add("w", rest, FactorRole::kWhole)};
  if (node.input(2) != nullptr) map->inputs[2][0] = map->outputs[0][1];
}

void add_channel_factors(const Node& node, FactorMap* map) {
  const bool is_transposed = node.type() == "ConvTranspose";
  const Dim& in = node.input(0)->shape()[1];
  const Dim& out = node.output()->shape()[1];
  if (!out.is(1)) {
    map->outputs[0][1] = {map->add("o", out)};
    map->inputs[1][is_transposed ? 1 : 0] = map->outputs[0][1];
    if (node.input(2) != nullptr) map->inputs[2][0] = map->outputs[0][1];
  }
  if (!in.is(1)) {
    const bool may_split = node.input(2) == nullptr;
    map->inputs[0][1] = {
        map->add("c", in, may_split ? FactorRole::kReduction : FactorRole::kWhole)};
    map->inputs[1][is_transposed ? 0 : 1] = map->inputs[0][1];
  }
}

// (n c x ..),(o c ..),(o)->(n o y~ ..) with windows y~x; ConvTranspose's weight is (c o ..).
// In groups (n (g c) x ..),((g o) c ..),((g o))->(n (g o) y~ ..), in pieces that are equal, since
// their number is an attribute (has_even_groups).
FactorMap conv_factors(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape& x = node.input(0)->shape();
  const Shape& w = node.input(1)->shape();
  const Shape& out = node.output()->shape();
  if (!out[0].is(1)) {
    map.inputs[0][0] = {map.add("n", out[0])};
    map.outputs[0][0] = map.inputs[0][0];
  }
  if (node.attr_int("group", 1) == 1) {
    add_channel_factors(node, &map);
  } else {
    add_group_factors(node, &map);
  }
  const auto whole = [&map](std::string name, const Dim& size) -> std::vector<int> {
    if (size.is(1)) return {};
    return {map.add(std::move(name), size, FactorRole::kWhole)};
  };
  const auto window = node_window(node);
  for (std::size_t d = 2; d < x.size(); ++d) {
    map.inputs[1][d] = whole(str_cat("k", d - 2), w[d]);
    if (!window.ok()) {
      add_whole_factors(&map, d, x[d], out[d]);
    } else if (node.type() == "ConvTranspose") {
      add_window_factors(&map, d, x[d], out[d], transposed_window(*window, d - 2),
                         window->strides[d - 2]);
    } else {
      add_window_factors(&map, d, x[d], out[d], conv_window(*window, d - 2));
    }
  }
  return map;
}

Dim kernel_size(const Node& node) {
  const Shape& w = node.input(1)->shape();
  return product(Shape(w.begin() + 2, w.end()));
}

Dim conv_flops(const Node& node) {
  return Dim(2) * product(node.output()->shape()) * node.input(1)->shape()[1] * kernel_size(node);
}

Dim conv_transpose_flops(const Node& node) {
  return Dim(2) * product(node.input(0)->shape()) * node.input(1)->shape()[1] * kernel_size(node);
}

}  // namespace

void add_whole_factors(FactorMap* map, std::size_t d, const Dim& in, const Dim& out) {
  map->inputs[0][d].clear();
  map->outputs[0][d].clear();
  if (!in.is(1)) map->inputs[0][d] = {map->add(str_cat("x", d), in, FactorRole::kWhole)};
  if (!out.is(1)) map->outputs[0][d] = {map->add(str_cat("y", d), out, FactorRole::kWhole)};
}

void add_window_factors(FactorMap* map, std::size_t d, const Dim& in, const Dim& out,
                        const WindowMap& window, std::int64_t group) {
  const std::optional<Dim> rows = exact_div(out, Dim(group));
  if (in.is(1) || !rows || rows->is(1)) return add_whole_factors(map, d, in, out);
  const bool is_pointwise = window.only_moves() && window.offset.is(0) && *rows == in;
  const int y =
      map->add(str_cat("y", d), *rows, is_pointwise ? FactorRole::kParallel : FactorRole::kWindow);
  map->outputs[0][d] = {y};
  if (group > 1) map->outputs[0][d].push_back(map->add(str_cat("r", d), group, FactorRole::kWhole));
  map->inputs[0][d] = {y};
  if (is_pointwise) return;
  const int x = map->add(str_cat("x", d), in, FactorRole::kWhole);
  map->inputs[0][d] = {x};
  map->windows.push_back({x, y, window});
}

Result<Window> make_window(std::vector<std::int64_t> kernel, std::vector<std::int64_t> strides,
                           std::vector<std::int64_t> dilations, std::vector<std::int64_t> pads) {
  Window window{std::move(kernel), std::move(strides), std::move(dilations), std::move(pads)};
  const std::size_t rank = window.kernel.size();
  if (window.strides.empty()) window.strides.assign(rank, 1);
  if (window.dilations.empty()) window.dilations.assign(rank, 1);
  if (window.pads.empty()) window.pads.assign(2 * rank, 0);
  const auto check = [](std::string_view name, const std::vector<std::int64_t>& values,
                        std::size_t count, std::int64_t least) -> Status {
    bool fits = values.size() == count;
    for (const std::int64_t value : values) fits = fits && value >= least && value <= (1 << 24);
    if (fits) return {};
    return invalid_argument("attribute '", name, "' is ", values, "; expected ", count,
                            " numbers from ", least, " to 2^24");
  };
  TUTTI_RETURN_IF_ERROR(check("kernel_shape", window.kernel, rank, 1));
  TUTTI_RETURN_IF_ERROR(check("strides", window.strides, rank, 1));
  TUTTI_RETURN_IF_ERROR(check("dilations", window.dilations, rank, 1));
  TUTTI_RETURN_IF_ERROR(check("pads", window.pads, 2 * rank, 0));
  return window;
}

Result<std::vector<std::int64_t>> constant_sizes(const Value& value, std::size_t first,
                                                 std::string_view what) {
  std::vector<std::int64_t> out;
  for (std::size_t d = first; d < value.rank(); ++d) {
    if (!value.shape()[d].is_constant()) {
      return invalid_argument(what, " is ", value.type(), ": dimension ", d, " must be a number");
    }
    out.push_back(value.shape()[d].constant());
  }
  return out;
}

void register_conv_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  const std::vector<AttributeSpec> attributes = {{"group", AttributeKind::kInt},
                                                 {"strides", AttributeKind::kInts},
                                                 {"pads", AttributeKind::kInts},
                                                 {"dilations", AttributeKind::kInts}};
  ops->add({.type = "Conv",
            .domain = "",
            .min_inputs = 2,
            .max_inputs = 3,
            .attributes = attributes,
            .infer = infer_conv,
            .factors = conv_factors,
            .piece_attributes = conv_piece_attributes,
            .flops = conv_flops});
  OpDef transposed{.type = "ConvTranspose",
                   .domain = "",
                   .min_inputs = 2,
                   .max_inputs = 3,
                   .attributes = attributes,
                   .infer = infer_conv_transpose,
                   .factors = conv_factors,
                   .piece_attributes = conv_piece_attributes,
                   .flops = conv_transpose_flops};
  transposed.attributes.push_back({"output_padding", AttributeKind::kInts});
  ops->add(std::move(transposed));
  register_conv_lowerings(lowerings);
  register_pool_ops(ops, lowerings);
  register_resize_ops(ops, lowerings);
}

}  // namespace tutti
