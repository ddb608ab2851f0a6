// Matrix products: the core operators MatMul and Linear. Lowerings of Gemm, MatMulInteger and
// Einsum are in product_lowering.cpp and einsum.cpp.
#include "ops/product.h"

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

Status check_product_dtype(const Value& value) {
  switch (value.dtype()) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt32:
    case DType::kUInt64: return {};
    default:
      return invalid_argument(
          "element type ", dtype_name(value.dtype()),
          " has no matrix product; expected a float or a 32- or 64-bit integer");
  }
}

Result<std::vector<TensorType>> infer_matmul(const Node& node, int /*num_outputs*/) {
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  const Value& a = *node.input(0);
  const Value& b = *node.input(1);
  TUTTI_RETURN_IF_ERROR(check_product_dtype(a));
  if (a.rank() < 2 || b.rank() < 2) {
    return invalid_argument("operands ", a.type(), " and ", b.type(),
                            " of a matrix product need two dimensions or more");
  }
  const Dim& k = a.shape().back();
  const Dim& b_k = b.shape()[b.rank() - 2];
  if (surely_differ(k, b_k)) {
    return invalid_argument("inner sizes differ: ", a.type(), " has ", k, " columns, ", b.type(),
                            " has ", b_k, " rows");
  }
  TUTTI_ASSIGN_OR_RETURN(Shape shape,
                         broadcast_shapes(Shape(a.shape().begin(), a.shape().end() - 2),
                                          Shape(b.shape().begin(), b.shape().end() - 2)));
  shape.push_back(a.shape()[a.rank() - 2]);
  shape.push_back(b.shape().back());
  return one_type(a.dtype(), std::move(shape));
}

// (b.. m k),(b.. k n)->(b.. m n)
FactorMap matmul_factors(const Node& node) {
  FactorMap map = empty_factors(node);
  const Shape& out = node.output()->shape();
  const DimFactors row = add_factors(&map, out);
  map.outputs[0] = row;
  for (std::size_t i = 0; i < 2; ++i) {
    const Shape& shape = node.input(i)->shape();
    const std::size_t shift = out.size() - shape.size();
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
      if (shape[d].is(1) || row[d + shift].empty()) continue;
      map.inputs[i][d] = row[d + shift];
      if (shape[d] == out[d + shift]) continue;
      map.factors[static_cast<std::size_t>(row[d + shift][0])].role = FactorRole::kWhole;
    }
  }
  const Shape& a = node.input(0)->shape();
  const Shape& b = node.input(1)->shape();
  map.inputs[0][a.size() - 2] = row[out.size() - 2];
  map.inputs[1][b.size() - 1] = row[out.size() - 1];
  const Dim& k = a.back();
  if (!k.is(1)) {
    const bool is_same = k == b[b.size() - 2];
    const int factor = map.add("k", k, is_same ? FactorRole::kReduction : FactorRole::kWhole);
    map.inputs[0].back() = {factor};
    map.inputs[1][b.size() - 2] = {is_same ? factor
                                           : map.add("k2", b[b.size() - 2], FactorRole::kWhole)};
  }
  return map;
}

Dim matmul_flops(const Node& node) {
  return Dim(2) * product(node.output()->shape()) * node.input(0)->shape().back();
}

Result<std::vector<TensorType>> infer_linear(const Node& node, int /*num_outputs*/) {
  TUTTI_RETURN_IF_ERROR(check_same_dtypes(node));
  const Value& x = *node.input(0);
  const Value& w = *node.input(1);
  TUTTI_RETURN_IF_ERROR(check_floating(x, "input x"));
  if (x.rank() < 1) return invalid_argument("input x is a scalar; expected [.., k]");
  if (w.rank() != 2) return invalid_argument("weight is ", w.type(), "; expected two dimensions");
  const bool is_transposed = node.attr_int("transpose_w") != 0;
  const Dim& k = w.shape()[is_transposed ? 1 : 0];
  const Dim& n = w.shape()[is_transposed ? 0 : 1];
  if (surely_differ(x.shape().back(), k)) {
    return invalid_argument("inner sizes differ: x is ", x.type(), ", weight is ", w.type(),
                            is_transposed ? " transposed" : "");
  }
  if (!is_linear_activation(node.attr_string("activation"))) {
    return invalid_argument("activation '", node.attr_string("activation"),
                            "' is unknown; expected relu, gelu, gelu_tanh, silu, sigmoid or tanh");
  }
  Shape shape = x.shape();
  shape.back() = n;
  if (const Value* bias = node.input(2); bias != nullptr) {
    if (bias->rank() != 1 || surely_differ(bias->shape()[0], n)) {
      return invalid_argument("bias is ", bias->type(), "; expected [", n, "]");
    }
  }
  if (const Value* residual = node.input(3); residual != nullptr && residual->shape() != shape) {
    return invalid_argument("residual is ", residual->type(), "; expected ", shape);
  }
  return one_type(x.dtype(), std::move(shape));
}

// (.. k),(k n),(n),(.. n)->(.. n). Whatever is added after the sum over k must be added once, so
// k may be split only where nothing is.
FactorMap linear_factors(const Node& node) {
  FactorMap map = empty_factors(node);
  const DimFactors row = add_factors(&map, node.output()->shape());
  map.outputs[0] = row;
  map.inputs[0] = row;
  const Dim& k = node.input(0)->shape().back();
  const bool is_bare = node.input(2) == nullptr && node.input(3) == nullptr &&
                       node.attr_string("activation").empty();
  map.inputs[0].back().clear();
  const std::size_t k_dim = node.attr_int("transpose_w") != 0 ? 1 : 0;
  if (!k.is(1)) {
    const Dim& w_k = node.input(1)->shape()[k_dim];
    const bool is_same = k == w_k;
    map.inputs[0].back() = {
        map.add("k", k, is_bare && is_same ? FactorRole::kReduction : FactorRole::kWhole)};
    map.inputs[1][k_dim] =
        is_same ? map.inputs[0].back() : std::vector<int>{map.add("k2", w_k, FactorRole::kWhole)};
  }
  map.inputs[1][1 - k_dim] = row.back();
  if (node.input(2) != nullptr) map.inputs[2] = {row.back()};
  if (node.input(3) != nullptr) map.inputs[3] = row;
  return map;
}

}  // namespace

bool is_linear_activation(std::string_view name) {
  return name.empty() || name == "relu" || name == "gelu" || name == "gelu_tanh" ||
         name == "silu" || name == "sigmoid" || name == "tanh";
}

Value* build_matmul(GraphBuilder& b, Value* x, Value* y) {
  if (x == nullptr || y == nullptr) return nullptr;
  if (x->rank() == 0 || y->rank() == 0) {
    b.fail(invalid_argument("operand of a matrix product is a scalar: ", x->type(), " and ",
                            y->type()));
    return nullptr;
  }
  const bool x_is_vector = x->rank() == 1;
  const bool y_is_vector = y->rank() == 1;
  if (x_is_vector) x = b.reshape(x, {Dim(1), x->shape()[0]});
  if (y_is_vector) y = b.reshape(y, {y->shape()[0], Dim(1)});
  Value* out = b.op("MatMul", {x, y});
  if (out == nullptr || (!x_is_vector && !y_is_vector)) return out;
  Shape shape = out->shape();
  if (y_is_vector) shape.pop_back();
  if (x_is_vector) shape.erase(shape.end() - (y_is_vector ? 1 : 2));
  return b.reshape(out, std::move(shape));
}

void register_product_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  ops->add({.type = "MatMul",
            .domain = "",
            .min_inputs = 2,
            .max_inputs = 2,
            .infer = infer_matmul,
            .factors = matmul_factors,
            .flops = matmul_flops});
  ops->add(
      {.type = "Linear",
       .domain = "ai.tutti",
       .min_inputs = 2,
       .max_inputs = 4,
       .attributes = {{"transpose_w", AttributeKind::kInt}, {"activation", AttributeKind::kString}},
       .infer = infer_linear,
       .factors = linear_factors,
       .flops = matmul_flops});
  register_product_lowerings(lowerings);
  register_einsum_lowering(lowerings);
}

}  // namespace tutti
