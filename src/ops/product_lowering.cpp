// ONNX's MatMul, Gemm and MatMulInteger.
#include <cmath>

#include "ops/common.h"
#include "ops/product.h"

namespace tutti {
namespace {

Status lower_matmul(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  return finish(c, build_matmul(c.b, c.input(0), c.input(1)));
}

// x * factor, without a node for 1.
Result<Value*> scaled(LoweringContext& c, Value* x, double factor, std::string_view what) {
  if (factor == 1.0 || x == nullptr) return x;
  if (!is_floating(x->dtype()) && factor != std::floor(factor)) {
    return invalid_argument("attribute '", what, "' is ", factor,
                            "; integer operands need a whole number");
  }
  return c.b.op("Mul", {x, scalar_like(c, x, factor)});
}

Status lower_gemm(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* a = c.input(0);
  Value* b = c.input(1);
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.input(i)->rank() != 2) {
      return invalid_argument("input ", i, " is ", c.input(i)->type(), "; expected a matrix");
    }
  }
  if (c.attr_int("transA", 0) != 0) a = c.b.transpose(a, {1, 0});
  if (c.attr_int("transB", 0) != 0) b = c.b.transpose(b, {1, 0});
  Value* out = c.b.op("MatMul", {a, b});
  TUTTI_ASSIGN_OR_RETURN(out, scaled(c, out, c.attr_float("alpha", 1.0), "alpha"));
  const double beta = c.attr_float("beta", 1.0);
  if (Value* bias = c.input(2); bias != nullptr && beta != 0.0 && out != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, broadcast_shapes(out->shape(), bias->shape()));
    if (bias->rank() > 2 || shape != out->shape()) {
      return invalid_argument("input 2 is ", bias->type(), ", which does not broadcast to ",
                              out->shape());
    }
    TUTTI_ASSIGN_OR_RETURN(bias, scaled(c, bias, beta, "beta"));
    out = c.b.op("Add", {out, bias});
  }
  return finish(c, out);
}

// A zero point is a scalar, one for each row of A ([M]) or column of B ([N]), or broadcasts.
Result<Value*> without_zero_point(LoweringContext& c, std::size_t i, std::size_t zero_point) {
  Value* x = c.input(i);
  if (x->dtype() != DType::kInt8 && x->dtype() != DType::kUInt8) {
    return invalid_argument("input ", i, " is ", x->type(), "; expected i8 or u8");
  }
  x = c.b.cast(x, DType::kInt32);
  Value* zero = c.input(zero_point);
  if (zero == nullptr) return x;
  zero = c.b.cast(zero, DType::kInt32);
  if (i == 0 && zero != nullptr && zero->rank() == 1 && !zero->shape()[0].is(1)) {
    zero = c.b.reshape(zero, {zero->shape()[0], Dim(1)});
  }
  return c.b.op("Sub", {x, zero});
}

Status lower_matmul_integer(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(Value* const a, without_zero_point(c, 0, 2));
  TUTTI_ASSIGN_OR_RETURN(Value* const b, without_zero_point(c, 1, 3));
  return finish(c, build_matmul(c.b, a, b));
}

}  // namespace

void register_product_lowerings(LoweringRegistry* lowerings) {
  lowerings->add({.domain = "", .op_type = "MatMul", .lower = lower_matmul});
  lowerings->add({.domain = "",
                  .op_type = "Gemm",
                  .attributes = {"alpha", "beta", "transA", "transB"},
                  .lower = lower_gemm});
  lowerings->add({.domain = "", .op_type = "MatMulInteger", .lower = lower_matmul_integer});
}

}  // namespace tutti
