// ONNX's RotaryEmbedding (opset 23) as slices, products and Concat.
#include "ops/attention.h"
#include "ops/common.h"

namespace tutti {
namespace {

// cos or sin as [b, s, rotated / 2] -> broadcastable to the halves of x.
Result<Value*> read_cache(LoweringContext& c, std::size_t i, const Dim& half, bool is_head_major) {
  Value* cache = c.input(i);
  if (Value* positions = c.input(3); positions != nullptr) {
    if (cache->rank() != 2) {
      return invalid_argument("input ", i, " is ", cache->type(), "; expected [positions, ", half,
                              "]");
    }
    cache = c.b.op("Gather", {cache, positions}, {{"axis", std::int64_t{0}}});
    TUTTI_RETURN_IF_ERROR(c.b.status());
  }
  if (cache->rank() != 3 || surely_differ(cache->shape()[2], half)) {
    return invalid_argument("input ", i, " is ", cache->type(), "; expected [batch, tokens, ", half,
                            "]");
  }
  const Shape& s = cache->shape();
  return is_head_major ? c.b.reshape(cache, {s[0], Dim(1), s[1], s[2]})
                       : c.b.reshape(cache, {s[0], s[1], Dim(1), s[2]});
}

Status lower_rotary(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  Value* x = c.input(0);
  const bool is_head_major = x->rank() == 4;  // [b, h, s, d]; else [b, s, h * d]
  if (x->rank() == 3) {
    const std::int64_t heads = c.attr_int("num_heads", 0);
    const std::optional<Dim> size = heads < 1 ? std::nullopt : exact_div(x->shape()[2], Dim(heads));
    if (!size) {
      return invalid_argument("attribute 'num_heads' is ", heads,
                              ", which does not divide input 0, ", x->type());
    }
    x = c.b.reshape(x, {x->shape()[0], x->shape()[1], Dim(heads), *size});
  } else if (x->rank() != 4) {
    return invalid_argument("input 0 is ", x->type(), "; expected rank 3 or 4");
  }
  TUTTI_RETURN_IF_ERROR(c.b.status());
  const Shape shape = x->shape();
  const std::int64_t rotated_attribute = c.attr_int("rotary_embedding_dim", 0);
  const Dim rotated = rotated_attribute > 0 ? Dim(rotated_attribute) : shape[3];
  const std::optional<Dim> half = exact_div(rotated, Dim(2));
  const Dim rest = shape[3] - rotated;
  if (!half || (rest.is_constant() && rest.constant() < 0)) {
    return invalid_argument("the rotated size ", rotated, " is odd or larger than the head size ",
                            shape[3]);
  }
  TUTTI_ASSIGN_OR_RETURN(Value* const cos, read_cache(c, 1, *half, is_head_major));
  TUTTI_ASSIGN_OR_RETURN(Value* const sin, read_cache(c, 2, *half, is_head_major));
  GraphBuilder& b = c.b;
  Value* turned = rest.is(0) ? x : b.slice(x, {3}, {Dim(0)}, {rotated});
  const bool is_interleaved = c.attr_int("interleaved", 0) != 0;
  const Shape half_shape{shape[0], shape[1], shape[2], *half};
  const Shape rotated_shape{shape[0], shape[1], shape[2], rotated};
  const Shape pair_shape{shape[0], shape[1], shape[2], *half, Dim(2)};
  Value* first = nullptr;
  Value* second = nullptr;
  if (is_interleaved) {
    Value* pairs = b.reshape(turned, pair_shape);
    first = b.reshape(b.slice(pairs, {4}, {Dim(0)}, {Dim(1)}), half_shape);
    second = b.reshape(b.slice(pairs, {4}, {Dim(1)}, {Dim(2)}), half_shape);
  } else {
    first = b.slice(turned, {3}, {Dim(0)}, {*half});
    second = b.slice(turned, {3}, {*half}, {rotated});
  }
  Value* real = b.op("Sub", {b.op("Mul", {cos, first}), b.op("Mul", {sin, second})});
  Value* imaginary = b.op("Add", {b.op("Mul", {sin, first}), b.op("Mul", {cos, second})});
  Value* out = nullptr;
  if (is_interleaved) {
    const Shape column{shape[0], shape[1], shape[2], *half, Dim(1)};
    out = b.op("Concat", {b.reshape(real, column), b.reshape(imaginary, column)},
               {{"axis", std::int64_t{4}}});
    out = b.reshape(out, rotated_shape);
    if (!rest.is(0)) {
      out = b.op("Concat", {out, b.slice(x, {3}, {rotated}, {shape[3]})},
                 {{"axis", std::int64_t{3}}});
    }
  } else {
    std::vector<Value*> pieces{real, imaginary};
    if (!rest.is(0)) pieces.push_back(b.slice(x, {3}, {rotated}, {shape[3]}));
    out = b.op("Concat", std::move(pieces), {{"axis", std::int64_t{3}}});
  }
  return finish(c, b.reshape(out, c.input(0)->shape()));
}

}  // namespace

void register_rotary_lowering(LoweringRegistry* lowerings) {
  lowerings->add({.domain = "",
                  .op_type = "RotaryEmbedding",
                  .since_opset = 23,
                  .attributes = {"interleaved", "num_heads", "rotary_embedding_dim"},
                  .lower = lower_rotary});
}

}  // namespace tutti
