// Reduce: one core operator for ONNX's ReduceSum, ReduceMean, ...
#include <algorithm>

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

struct Kind {
  const char* name;
  const char* onnx;
};

constexpr Kind kKinds[] = {
    {"sum", "ReduceSum"},
    {"mean", "ReduceMean"},
    {"max", "ReduceMax"},
    {"min", "ReduceMin"},
    {"prod", "ReduceProd"},
    {"l1", "ReduceL1"},
    {"l2", "ReduceL2"},
    {"log_sum", "ReduceLogSum"},
    {"log_sum_exp", "ReduceLogSumExp"},
    {"sum_square", "ReduceSumSquare"},
};

bool keeps_dims(const Node& node) { return node.attr_int("keepdims", 1) != 0; }

Result<std::vector<TensorType>> infer_reduce(const Node& node, int) {
  const Value& x = *node.input(0);
  const std::string kind = node.attr_string("kind");
  const auto known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& k) { return kind == k.name; });
  if (known == std::end(kKinds)) {
    return invalid_argument("kind '", kind,
                            "'; expected sum, mean, max, min, prod, l1, l2, "
                            "log_sum, log_sum_exp or sum_square");
  }
  const bool is_extreme = kind == "max" || kind == "min";
  if (!is_floating(x.dtype()) && !is_integer(x.dtype()) &&
      !(is_extreme && x.dtype() == DType::kBool)) {
    return invalid_argument("element type ", dtype_name(x.dtype()), "; expected a number type");
  }
  const Axes axes = node.attr_ints("axes");
  TUTTI_RETURN_IF_ERROR(check_axes(axes, x.rank()));
  if (!keeps_dims(node)) return one_type(x.dtype(), without_axes(x.shape(), axes));
  Shape shape = x.shape();
  for (const std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return one_type(x.dtype(), std::move(shape));
}

std::optional<std::vector<Dim>> reduced_elements(const Node& node) {
  const auto& elements = node.input(0)->symbolic();
  if (!elements || elements->empty() || node.attr_ints("axes").size() != node.input(0)->rank()) {
    return std::nullopt;
  }
  const std::string kind = node.attr_string("kind");
  Dim result = (*elements)[0];
  for (std::size_t i = 1; i < elements->size(); ++i) {
    const Dim& element = (*elements)[i];
    if (kind == "sum") result = result + element;
    if (kind == "prod") result = result * element;
    if (kind == "max") result = max(result, element);
    if (kind == "min") result = min(result, element);
  }
  if (kind != "sum" && kind != "prod" && kind != "max" && kind != "min") return std::nullopt;
  return std::vector<Dim>{result};
}

FactorMap factors_of_reduce(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape& shape = node.input(0)->shape();
  const Axes axes = node.attr_ints("axes");
  const std::string kind = node.attr_string("kind");
  const bool sums = kind == "sum" || kind == "sum_square" || kind == "l1";
  std::size_t to = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = contains(axes, static_cast<std::int64_t>(d));
    if (!shape[d].is(1)) {
      const FactorRole role = !reduced ? FactorRole::kParallel
                              : sums   ? FactorRole::kReduction
                                       : FactorRole::kWhole;
      map.inputs[0][d] = {map.add(factor_name(d), shape[d], role)};
    }
    if (!reduced) {
      map.outputs[0][to++] = map.inputs[0][d];
    } else if (keeps_dims(node)) {
      ++to;
    }
  }
  return map;
}

Dim flops_of_reduce(const Node& node) { return product(node.input(0)->shape()); }

Status lower_reduce(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  Value* x = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(Axes axes, axes_from(c, "axes", 1, x->rank()));
  if (axes.empty()) {
    if (c.attr_int("noop_with_empty_axes", 0) != 0) {
      // No axes: the element-wise part of the reduction alone.
      if (c.op_type == "ReduceL1" || c.op_type == "ReduceL2") {
        return finish(c, c.b.op("Abs", {x}));
      }
      if (c.op_type == "ReduceSumSquare") return finish(c, c.b.op("Mul", {x, x}));
      if (c.op_type == "ReduceLogSum") return finish(c, c.b.op("Log", {x}));
      return finish(c, x);
    }
    for (std::size_t i = 0; i < x->rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  std::sort(axes.begin(), axes.end());
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const Kind& k) { return c.op_type == k.onnx; });
  return finish(c, c.b.op("Reduce", {x},
                          {{"kind", std::string(kind->name)},
                           {"axes", axes},
                           {"keepdims", c.attr_int("keepdims", 1)}}));
}

}  // namespace

void register_reduce_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef reduce;
  reduce.type = "Reduce";
  reduce.domain = "ai.tutti";
  reduce.attributes = {{"kind", AttributeKind::kString, true},
                       {"axes", AttributeKind::kInts, true},
                       {"keepdims", AttributeKind::kInt, false}};
  reduce.infer = infer_reduce;
  reduce.symbolic = reduced_elements;
  reduce.factors = factors_of_reduce;
  reduce.flops = flops_of_reduce;
  ops->add(std::move(reduce));

  for (const Kind& kind : kKinds) {
    Lowering lowering;
    lowering.op_type = kind.onnx;
    lowering.attributes = {"axes", "keepdims", "noop_with_empty_axes"};
    lowering.lower = lower_reduce;
    lowerings->add(std::move(lowering));
  }
}

}  // namespace tutti
