// ONNX's Conv, ConvInteger, ConvTranspose, DepthToSpace and SpaceToDepth.
#include <algorithm>

#include "ops/common.h"
#include "ops/conv.h"

namespace tutti {
namespace {

Status check_spatial(const Value& x) {
  if (x.rank() >= 3) return {};
  return invalid_argument("input 0 is ", x.type(),
                          "; expected [n, c, ..] with a spatial dimension");
}

// The window of a node whose kernel is the weight's. kernel_shape, where given, must agree.
Result<Window> weight_window(const LoweringContext& c) {
  const Value& w = *c.input(1);
  if (w.rank() != c.input(0)->rank()) {
    return invalid_argument("input 1 is ", w.type(), "; expected rank ", c.input(0)->rank());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::int64_t> kernel, constant_sizes(w, 2, "input 1"));
  if (c.has("kernel_shape") && c.attr_ints("kernel_shape") != kernel) {
    return invalid_argument("attribute 'kernel_shape' is ", c.attr_ints("kernel_shape"),
                            ", but input 1 is ", w.type());
  }
  return make_window(kernel, c.attr_ints("strides"), c.attr_ints("dilations"), c.attr_ints("pads"));
}

AttributeMap window_attributes(const LoweringContext& c, const Window& window) {
  return {{"group", c.attr_int("group", 1)},
          {"strides", window.strides},
          {"pads", window.pads},
          {"dilations", window.dilations}};
}

Result<Value*> build_conv(LoweringContext& c, Value* x, Value* w, Value* bias) {
  TUTTI_RETURN_IF_ERROR(check_spatial(*x));
  TUTTI_ASSIGN_OR_RETURN(Window window, weight_window(c));
  TUTTI_ASSIGN_OR_RETURN(window.pads, resolve_auto_pad(c, *x, window));
  return c.b.op("Conv", {x, w, bias}, window_attributes(c, window));
}

Status lower_conv(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(Value* const out, build_conv(c, c.input(0), c.input(1), c.input(2)));
  return finish(c, out);
}

// Integers minus their zero point; the padding then is zero as it should be.
Status lower_conv_integer(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.b.cast(c.input(0), DType::kInt32);
  Value* w = c.b.cast(c.input(1), DType::kInt32);
  if (Value* zero = c.input(2); zero != nullptr)
    x = c.b.op("Sub", {x, c.b.cast(zero, DType::kInt32)});
  if (Value* zero = c.input(3); zero != nullptr) {
    zero = c.b.cast(zero, DType::kInt32);
    if (zero != nullptr && zero->rank() == 1 && !zero->shape()[0].is(1)) {
      Shape shape(c.input(1)->rank(), Dim(1));
      shape[0] = zero->shape()[0];
      zero = c.b.reshape(zero, std::move(shape));
    }
    w = c.b.op("Sub", {w, zero});
  }
  TUTTI_RETURN_IF_ERROR(c.b.status());
  TUTTI_ASSIGN_OR_RETURN(Value* const out, build_conv(c, x, w, nullptr));
  return finish(c, out);
}

// Puts `total` padding around dimension i: the larger half first unless SAME_UPPER, as ONNX says.
void share_padding(std::int64_t total, bool is_upper, std::size_t i, Window* window) {
  const std::int64_t begin = is_upper ? total / 2 : total - total / 2;
  window->pads[i] = begin;
  window->pads[i + window->kernel.size()] = total - begin;
}

Status lower_conv_transpose(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  const Value& x = *c.input(0);
  TUTTI_RETURN_IF_ERROR(check_spatial(x));
  TUTTI_ASSIGN_OR_RETURN(Window window, weight_window(c));
  const std::size_t rank = window.kernel.size();
  std::vector<std::int64_t> extra = c.attr_ints("output_padding");
  if (extra.empty()) extra.assign(rank, 0);
  std::vector<std::int64_t> output_shape = c.attr_ints("output_shape");
  // Some exporters write batch and channels too.
  if (output_shape.size() == rank + 2)
    output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  if (extra.size() != rank || (!output_shape.empty() && output_shape.size() != rank)) {
    return invalid_argument("attributes 'output_padding' ", extra, " and 'output_shape' ",
                            output_shape, ": expected ", rank, " numbers each");
  }
  const std::string auto_pad = c.attr_string("auto_pad", "NOTSET");
  const bool is_same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!is_same && auto_pad != "NOTSET" && auto_pad != "VALID") {
    return invalid_argument("attribute 'auto_pad' is '", auto_pad,
                            "'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  if (auto_pad == "VALID") std::fill(window.pads.begin(), window.pads.end(), 0);
  for (std::size_t i = 0; i < rank && (is_same || !output_shape.empty()); ++i) {
    std::int64_t total = 0;
    if (output_shape.empty()) {
      total = window.extent(i) + extra[i] - window.strides[i];  // for an output of size * stride
    } else {
      const Dim& size = x.shape()[i + 2];
      if (!size.is_constant()) {
        return invalid_argument("attribute 'output_shape' needs constant sizes; input 0 is ",
                                x.type());
      }
      total =
          window.strides[i] * (size.constant() - 1) + extra[i] + window.extent(i) - output_shape[i];
    }
    if (total < 0) {  // the output is larger than what the input reaches
      extra[i] -= total;
      total = 0;
    }
    share_padding(total, auto_pad == "SAME_UPPER", i, &window);
  }
  AttributeMap attributes = window_attributes(c, window);
  attributes["output_padding"] = extra;
  return finish(
      c, c.b.op("ConvTranspose", {c.input(0), c.input(1), c.input(2)}, std::move(attributes)));
}

Result<Dim> divided(const Dim& size, std::int64_t by, const Value& x) {
  const std::optional<Dim> out = exact_div(size, Dim(by));
  if (!out)
    return invalid_argument("size ", size, " of input 0, ", x.type(), ", is no multiple of ", by);
  return *out;
}

Result<std::int64_t> check_blocks(const LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const std::int64_t block = c.attr_int("blocksize", 0);
  if (block < 1 || block > (1 << 15)) {
    return invalid_argument("attribute 'blocksize' is ", block, "; expected 1 or more");
  }
  if (c.input(0)->rank() != 4) {
    return invalid_argument("input 0 is ", c.input(0)->type(), "; expected [n, c, h, w]");
  }
  return block;
}

Status lower_depth_to_space(LoweringContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t block, check_blocks(c));
  const Shape& s = c.input(0)->shape();
  const std::string mode = c.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    return invalid_argument("attribute 'mode' is '", mode, "'; expected DCR or CRD");
  }
  TUTTI_ASSIGN_OR_RETURN(const Dim depth, divided(s[1], block * block, *c.input(0)));
  const Dim b(block);
  Value* x = nullptr;
  if (mode == "DCR") {
    x = c.b.reshape(c.input(0), {s[0], b, b, depth, s[2], s[3]});
    x = c.b.transpose(x, {0, 3, 4, 1, 5, 2});
  } else {
    x = c.b.reshape(c.input(0), {s[0], depth, b, b, s[2], s[3]});
    x = c.b.transpose(x, {0, 1, 4, 2, 5, 3});
  }
  return finish(c, c.b.reshape(x, {s[0], depth, s[2] * b, s[3] * b}));
}

Status lower_space_to_depth(LoweringContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t block, check_blocks(c));
  const Shape& s = c.input(0)->shape();
  TUTTI_ASSIGN_OR_RETURN(const Dim h, divided(s[2], block, *c.input(0)));
  TUTTI_ASSIGN_OR_RETURN(const Dim w, divided(s[3], block, *c.input(0)));
  const Dim b(block);
  Value* x = c.b.reshape(c.input(0), {s[0], s[1], h, b, w, b});
  x = c.b.transpose(x, {0, 3, 5, 1, 2, 4});
  return finish(c, c.b.reshape(x, {s[0], s[1] * Dim(block * block), h, w}));
}

}  // namespace

Result<std::vector<std::int64_t>> resolve_auto_pad(const LoweringContext& c, const Value& x,
                                                   const Window& window) {
  const std::string auto_pad = c.attr_string("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET") return window.pads;
  const std::size_t rank = window.kernel.size();
  std::vector<std::int64_t> pads(2 * rank, 0);
  if (auto_pad == "VALID") return pads;
  if (auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
    return invalid_argument("attribute 'auto_pad' is '", auto_pad,
                            "'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t stride = window.strides[i];
    std::int64_t total = window.extent(i) - 1;
    if (stride != 1) {
      const Dim& size = x.shape()[i + 2];
      if (!size.is_constant()) {
        return invalid_argument("attribute 'auto_pad' is ", auto_pad, " with stride ", stride,
                                ", which needs constant sizes; input 0 is ", x.type());
      }
      const std::int64_t outputs = (size.constant() + stride - 1) / stride;
      total =
          std::max<std::int64_t>((outputs - 1) * stride + window.extent(i) - size.constant(), 0);
    }
    pads[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[i + rank] = total - pads[i];
  }
  return pads;
}

void register_conv_lowerings(LoweringRegistry* lowerings) {
  const std::vector<std::string> attributes = {"auto_pad",     "dilations", "group",
                                               "kernel_shape", "pads",      "strides"};
  lowerings->add({.domain = "", .op_type = "Conv", .attributes = attributes, .lower = lower_conv});
  lowerings->add({.domain = "",
                  .op_type = "ConvInteger",
                  .attributes = attributes,
                  .lower = lower_conv_integer});
  std::vector<std::string> transposed = attributes;
  transposed.insert(transposed.end(), {"output_padding", "output_shape"});
  lowerings->add({.domain = "",
                  .op_type = "ConvTranspose",
                  .attributes = std::move(transposed),
                  .lower = lower_conv_transpose});
  lowerings->add({.domain = "",
                  .op_type = "DepthToSpace",
                  .attributes = {"blocksize", "mode"},
                  .lower = lower_depth_to_space});
  lowerings->add({.domain = "",
                  .op_type = "SpaceToDepth",
                  .attributes = {"blocksize"},
                  .lower = lower_space_to_depth});
}

}  // namespace tutti
