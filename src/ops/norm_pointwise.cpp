// Norms that become pointwise operators and reductions: BatchNormalization (inference),
// LpNormalization, MeanVarianceNormalization, LRN.
#include <algorithm>

#include "ops/common.h"
#include "ops/norm.h"

namespace tutti {
namespace {

Value* reduce(GraphBuilder& b, Value* x, std::string kind, Axes axes) {
  return b.op(
      "Reduce", {x},
      {{"kind", std::move(kind)}, {"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}});
}

// y = x * a + b with one a and b a channel, which fold when the statistics are constants.
Status lower_batch_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 5));
  if (c.attr_int("training_mode", 0) != 0 || c.outputs.size() > 1) {
    return unimplemented(
        "BatchNormalization in training mode; export the model for inference "
        "(training_mode = 0, one output)");
  }
  Value* x = c.input(0);
  if (x->rank() < 1) return invalid_argument("input 0 is a scalar; expected [n, c, ..]");
  const Dim channels = x->rank() < 2 ? Dim(1) : x->shape()[1];
  for (std::size_t i = 1; i < 5; ++i) {
    if (c.input(i)->rank() != 1 || surely_differ(c.input(i)->shape()[0], channels)) {
      return invalid_argument("input ", i, " is ", c.input(i)->type(), "; expected [", channels,
                              "]");
    }
  }
  // Statistics may be of a wider type than x: the wider one counts.
  Value* mean = c.input(3);
  const DType wide = mean == nullptr ? DType::kFloat32 : mean->dtype();
  Value* deviation = c.b.op(
      "Sqrt",
      {c.b.op("Add", {c.input(4), scalar_like(c, c.input(4), c.attr_float("epsilon", 1e-5))})});
  Value* factor = c.b.op("Div", {c.b.cast(c.input(1), wide), c.b.cast(deviation, wide)});
  Value* offset = c.b.op("Sub", {c.b.cast(c.input(2), wide), c.b.op("Mul", {mean, factor})});
  if (x->rank() > 2) {
    Shape shape(x->rank() - 1, Dim(1));
    shape[0] = channels;
    factor = c.b.reshape(factor, shape);
    offset = c.b.reshape(offset, shape);
  }
  Value* out = c.b.op("Add", {c.b.op("Mul", {c.b.cast(x, wide), factor}), offset});
  return finish(c, c.b.cast(out, x->dtype()));
}

Status lower_lp_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", -1, x->rank()));
  const std::int64_t p = c.attr_int("p", 2);
  if (p != 1 && p != 2) return unimplemented("attribute 'p' is ", p, "; expected 1 or 2");
  Value* norm = reduce(c.b, x, p == 1 ? "l1" : "l2", {axis});
  // A norm of zero leaves the zeros alone.
  Value* is_zero = c.b.op("Equal", {norm, scalar_like(c, norm, 0)});
  norm = c.b.op("Where", {is_zero, scalar_like(c, norm, 1), norm});
  return finish(c, c.b.op("Div", {x, norm}));
}

Status lower_mean_variance_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  const Axes given = c.has("axes") ? c.attr_ints("axes") : Axes{0, 2, 3};
  TUTTI_ASSIGN_OR_RETURN(const Axes axes, normalized_axes(given, x->rank()));
  Value* centred = c.b.op("Sub", {x, reduce(c.b, x, "mean", axes)});
  Value* deviation = c.b.op("Sqrt", {reduce(c.b, c.b.op("Mul", {centred, centred}), "mean", axes)});
  Value* divisor = c.b.op("Add", {deviation, scalar_like(c, x, 1e-9)});
  return finish(c, c.b.op("Div", {centred, divisor}));
}

// y = x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta
Status lower_lrn(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  const std::int64_t size = c.attr_int("size", 0);
  if (size < 1 || size > 64)
    return invalid_argument("attribute 'size' is ", size, "; expected 1 to 64");
  if (x->rank() < 2) return invalid_argument("input 0 is ", x->type(), "; expected [n, c, ..]");
  const Dim channels = x->shape()[1];
  Value* squares = c.b.op("Mul", {x, x});
  Value* padded = c.b.op("Pad", {squares},
                         {{"axes", Axes{1}},
                          {"before", Shape{Dim((size - 1) / 2)}},
                          {"after", Shape{Dim(size / 2)}},
                          {"mode", std::string("constant")}});
  Value* sum = nullptr;
  for (std::int64_t i = 0; i < size; ++i) {
    Value* one = c.b.slice(padded, {1}, {Dim(i)}, {channels + Dim(i)});
    sum = sum == nullptr ? one : c.b.op("Add", {sum, one});
  }
  const double factor = c.attr_float("alpha", 1e-4) / static_cast<double>(size);
  Value* base = c.b.op("Mul", {sum, scalar_like(c, x, factor)});
  base = c.b.op("Add", {base, scalar_like(c, x, c.attr_float("bias", 1.0))});
  Value* divisor = c.b.op("Pow", {base, scalar_like(c, x, c.attr_float("beta", 0.75))});
  return finish(c, c.b.op("Div", {x, divisor}));
}

}  // namespace

void register_pointwise_norm_lowerings(LoweringRegistry* lowerings) {
  lowerings->add({.domain = "",
                  .op_type = "BatchNormalization",
                  .since_opset = 9,
                  .attributes = {"epsilon", "momentum", "training_mode"},
                  .lower = lower_batch_norm});
  lowerings->add({.domain = "",
                  .op_type = "LpNormalization",
                  .attributes = {"axis", "p"},
                  .lower = lower_lp_norm});
  lowerings->add({.domain = "",
                  .op_type = "MeanVarianceNormalization",
                  .since_opset = 9,
                  .attributes = {"axes"},
                  .lower = lower_mean_variance_norm});
  lowerings->add({.domain = "",
                  .op_type = "LRN",
                  .attributes = {"alpha", "beta", "bias", "size"},
                  .lower = lower_lrn});
}

}  // namespace tutti
