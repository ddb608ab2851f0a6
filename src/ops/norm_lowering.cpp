// ONNX's LayerNormalization, RMSNormalization, GroupNormalization, InstanceNormalization, Softmax
// and LogSoftmax.
#include "ops/common.h"
#include "ops/norm.h"

namespace tutti {
namespace {

// The mean over [axis, rank), kept as size 1.
Value* mean_over(GraphBuilder& b, Value* x, std::int64_t axis) {
  if (x == nullptr) return nullptr;
  Axes axes;
  for (auto d = axis; d < static_cast<std::int64_t>(x->rank()); ++d) axes.push_back(d);
  return b.op("Reduce", {x},
              {{"kind", std::string("mean")}, {"axes", axes}, {"keepdims", std::int64_t{1}}});
}

// LayerNormalization's outputs Mean and InvStdDev, in the stash type, which we hold to f32 (or
// f64).
void add_statistics(LoweringContext& c, std::int64_t axis, double epsilon) {
  Value* x = c.input(0);
  if (x->dtype() != DType::kFloat64) x = c.b.cast(x, DType::kFloat32);
  Value* mean = mean_over(c.b, x, axis);
  c.outputs[1] = mean;
  if (c.outputs.size() < 3) return;
  Value* centred = c.b.op("Sub", {x, mean});
  Value* variance = mean_over(c.b, c.b.op("Mul", {centred, centred}), axis);
  Value* shifted = c.b.op("Add", {variance, scalar_like(c, x, epsilon)});
  c.outputs[2] = c.b.op("Reciprocal", {c.b.op("Sqrt", {shifted})});
}

Status lower_trailing_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", -1, x->rank()));
  const double epsilon = c.attr_float("epsilon", 1e-5);
  const Shape normalized(x->shape().begin() + axis, x->shape().end());
  AttributeMap attributes{{"axis", axis}, {"epsilon", epsilon}};
  const auto fits = [&](const Value* parameter) {
    return parameter == nullptr ||
           (parameter->shape() == normalized && parameter->dtype() == x->dtype());
  };
  const bool is_layer = c.op_type == "LayerNormalization";
  Value* bias = is_layer ? c.input(2) : nullptr;
  Value* out = nullptr;
  if (fits(c.input(1)) && fits(bias)) {
    out = c.b.op(c.op_type, {x, c.input(1), bias}, attributes);
  } else {
    // Parameters that broadcast, or of another type.
    out = c.b.op(c.op_type, {x}, attributes);
    out = c.b.op("Mul", {out, c.b.cast(c.input(1), x->dtype())});
    if (bias != nullptr) out = c.b.op("Add", {out, c.b.cast(bias, x->dtype())});
  }
  if (is_layer && c.outputs.size() > 1) add_statistics(c, axis, epsilon);
  return finish(c, out);
}

Result<std::int64_t> constant_channels(const LoweringContext& c) {
  const Value& x = *c.input(0);
  if (x.rank() < 2 || !x.shape()[1].is_constant()) {
    return invalid_argument("input 0 is ", x.type(), "; expected [n, c, ..] with a constant c");
  }
  return x.shape()[1].constant();
}

// Opset 18: scale and bias have one element a group; from 21 one a channel.
Status lower_group_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t channels, constant_channels(c));
  const std::int64_t groups = c.attr_int("num_groups", 0);
  if (groups < 1 || channels % groups != 0) {
    return invalid_argument("attribute 'num_groups' is ", groups, ", which does not divide the ",
                            channels, " channels of input 0, ", c.input(0)->type());
  }
  std::vector<Value*> inputs{c.input(0)};
  for (std::size_t i = 1; i < 3; ++i) {
    Value* parameter = c.b.cast(c.input(i), c.input(0)->dtype());
    if (c.opset < 21 && parameter != nullptr) {
      if (parameter->rank() != 1 || surely_differ(parameter->shape()[0], Dim(groups))) {
        return invalid_argument("input ", i, " is ", parameter->type(), "; expected [", groups,
                                "]");
      }
      parameter = c.b.reshape(parameter, {Dim(groups), Dim(1)});
      parameter = c.b.expand(parameter, {Dim(groups), Dim(channels / groups)});
      parameter = c.b.reshape(parameter, {Dim(channels)});
    }
    inputs.push_back(parameter);
  }
  return finish(c, c.b.op("GroupNorm", std::move(inputs),
                          {{"groups", groups}, {"epsilon", c.attr_float("epsilon", 1e-5)}}));
}

Status lower_instance_norm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t channels, constant_channels(c));
  if (channels == 0) return finish(c, c.input(0));
  return finish(c, c.b.op("GroupNorm", {c.input(0), c.input(1), c.input(2)},
                          {{"groups", channels}, {"epsilon", c.attr_float("epsilon", 1e-5)}}));
}

Status lower_softmax(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis,
                         axis_attribute(c, "axis", -1, c.input(0)->rank()));
  return finish(c, c.b.op(c.op_type, {c.input(0)}, {{"axis", axis}}));
}

}  // namespace

void register_norm_lowerings(LoweringRegistry* lowerings) {
  lowerings->add({.domain = "",
                  .op_type = "LayerNormalization",
                  .since_opset = 17,
                  .attributes = {"axis", "epsilon", "stash_type"},
                  .lower = lower_trailing_norm});
  lowerings->add({.domain = "",
                  .op_type = "RMSNormalization",
                  .since_opset = 23,
                  .attributes = {"axis", "epsilon", "stash_type"},
                  .lower = lower_trailing_norm});
  lowerings->add({.domain = "",
                  .op_type = "GroupNormalization",
                  .since_opset = 18,
                  .attributes = {"epsilon", "num_groups", "stash_type"},
                  .lower = lower_group_norm});
  lowerings->add({.domain = "",
                  .op_type = "InstanceNormalization",
                  .attributes = {"epsilon"},
                  .lower = lower_instance_norm});
  for (const char* type : {"Softmax", "LogSoftmax"}) {
    lowerings->add({.domain = "",
                    .op_type = type,
                    .since_opset = 13,
                    .attributes = {"axis"},
                    .lower = lower_softmax});
  }
}

}  // namespace tutti
