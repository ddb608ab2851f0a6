// The core operators LayerNormalization, RMSNormalization, GroupNorm, Softmax and LogSoftmax.
// Lowerings are in norm_lowering.cpp; norms that become other operators in norm_pointwise.cpp.
#include "ops/norm.h"

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

// Absent, or exactly of `shape` and of x's element type.
Status check_parameter(const Node& node, std::size_t i, std::string_view name, const Shape& shape) {
  const Value* parameter = node.input(i);
  if (parameter == nullptr) return {};
  bool fits = parameter->rank() == shape.size() && parameter->dtype() == node.input(0)->dtype();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = !surely_differ(parameter->shape()[d], shape[d]);
  }
  if (fits) return {};
  return invalid_argument(name, " is ", parameter->type(), "; expected ",
                          TensorType{node.input(0)->dtype(), shape});
}

// Layer and RMS norms: over dimensions [axis, rank).
Result<std::vector<TensorType>> infer_trailing_norm(const Node& node, int /*num_outputs*/) {
  const Value& x = *node.input(0);
  TUTTI_RETURN_IF_ERROR(check_floating(x, "input"));
  const std::int64_t axis = node.attr_int("axis");
  TUTTI_RETURN_IF_ERROR(check_axis(axis, x.rank()));
  const Shape normalized(x.shape().begin() + axis, x.shape().end());
  TUTTI_RETURN_IF_ERROR(check_parameter(node, 1, "scale", normalized));
  TUTTI_RETURN_IF_ERROR(check_parameter(node, 2, "bias", normalized));
  return same_type_as(x);
}

FactorMap trailing_norm_factors(const Node& node) {
  Axes whole;
  for (auto d = node.attr_int("axis"); d < static_cast<std::int64_t>(node.input(0)->rank()); ++d) {
    whole.push_back(d);
  }
  FactorMap map = along_axes_factors(node, whole);
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    if (node.input(i) == nullptr) continue;
    map.inputs[i].assign(map.inputs[0].begin() + node.attr_int("axis"), map.inputs[0].end());
  }
  return map;
}

Dim norm_flops(const Node& node) { return Dim(8) * product(node.output()->shape()); }

Result<std::vector<TensorType>> infer_group_norm(const Node& node, int /*num_outputs*/) {
  const Value& x = *node.input(0);
  TUTTI_RETURN_IF_ERROR(check_floating(x, "input"));
  if (x.rank() < 2) return invalid_argument("input is ", x.type(), "; expected [n, c, ..]");
  const std::int64_t groups = node.attr_int("groups");
  const Dim& channels = x.shape()[1];
  if (groups < 1 || surely_differ(mod(channels, Dim(groups)), Dim(0))) {
    return invalid_argument("attribute 'groups' is ", groups, ", which does not divide the ",
                            channels, " channels of ", x.type());
  }
  TUTTI_RETURN_IF_ERROR(check_parameter(node, 1, "scale", {channels}));
  TUTTI_RETURN_IF_ERROR(check_parameter(node, 2, "bias", {channels}));
  return same_type_as(x);
}

// Channels are tied to the number of groups, an attribute, so they stay whole.
FactorMap group_norm_factors(const Node& node) {
  Axes whole;
  for (std::size_t d = 1; d < node.input(0)->rank(); ++d)
    whole.push_back(static_cast<std::int64_t>(d));
  FactorMap map = along_axes_factors(node, whole);
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    if (node.input(i) != nullptr) map.inputs[i] = {map.inputs[0][1]};
  }
  return map;
}

Result<std::vector<TensorType>> infer_softmax(const Node& node, int /*num_outputs*/) {
  const Value& x = *node.input(0);
  TUTTI_RETURN_IF_ERROR(check_floating(x, "input"));
  TUTTI_RETURN_IF_ERROR(check_axis(node.attr_int("axis"), x.rank()));
  return same_type_as(x);
}

FactorMap softmax_factors(const Node& node) {
  return along_axes_factors(node, {node.attr_int("axis")});
}

}  // namespace

void register_norm_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  const AttributeSpec axis{"axis", AttributeKind::kInt, true};
  const AttributeSpec epsilon{"epsilon", AttributeKind::kFloat, true};
  ops->add({.type = "LayerNormalization",
            .domain = "",
            .min_inputs = 1,
            .max_inputs = 3,
            .attributes = {axis, epsilon},
            .infer = infer_trailing_norm,
            .factors = trailing_norm_factors,
            .flops = norm_flops});
  ops->add({.type = "RMSNormalization",
            .domain = "",
            .min_inputs = 1,
            .max_inputs = 2,
            .attributes = {axis, epsilon},
            .infer = infer_trailing_norm,
            .factors = trailing_norm_factors,
            .flops = norm_flops});
  ops->add({.type = "GroupNorm",
            .domain = "ai.tutti",
            .min_inputs = 1,
            .max_inputs = 3,
            .attributes = {{"groups", AttributeKind::kInt, true}, epsilon},
            .infer = infer_group_norm,
            .factors = group_norm_factors,
            .flops = norm_flops});
  for (const char* type : {"Softmax", "LogSoftmax"}) {
    ops->add({.type = type,
              .domain = "",
              .attributes = {axis},
              .infer = infer_softmax,
              .factors = softmax_factors,
              .flops = norm_flops});
  }
  register_norm_lowerings(lowerings);
  register_pointwise_norm_lowerings(lowerings);
}

}  // namespace tutti
