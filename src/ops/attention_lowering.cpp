// ONNX's Attention (opset 23 and 24). Inputs of rank 3 are [b, s, h * d] and keep that order
// (layout bshd) where nothing else needs heads in front; inputs of rank 4 are [b, h, s, d].
#include <cmath>
#include <limits>

#include "ops/attention.h"
#include "ops/common.h"

namespace tutti {
namespace {

struct Operands {
  Value* q = nullptr;
  Value* k = nullptr;
  Value* v = nullptr;
  std::string layout;
  Dim past = 0;
};

std::string mode_name(std::int64_t mode) { return str_cat("qk_matmul_output_mode = ", mode); }

// [b, s, h * d] -> [b, s, h, d]
Result<Value*> split_heads(LoweringContext& c, std::size_t i, std::string_view attribute) {
  Value* x = c.input(i);
  const std::int64_t heads = c.attr_int(attribute, 0);
  if (heads < 1) {
    return invalid_argument("attribute '", attribute, "' is ", heads, "; input ", i, ", ",
                            x->type(), ", needs the number of its heads");
  }
  const std::optional<Dim> size = exact_div(x->shape()[2], Dim(heads));
  if (!size) {
    return invalid_argument("input ", i, " is ", x->type(), ", which attribute '", attribute,
                            "' = ", heads, " does not divide");
  }
  return c.b.reshape(x, {x->shape()[0], x->shape()[1], Dim(heads), *size});
}

Result<Operands> read_operands(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 3));
  const std::size_t rank = c.input(0)->rank();
  for (std::size_t i = 0; i < 3; ++i) {
    if ((rank != 3 && rank != 4) || c.input(i)->rank() != rank) {
      return invalid_argument("input ", i, " is ", c.input(i)->type(),
                              "; expected Q, K and V all of rank 3 or all of rank 4");
    }
  }
  Operands o{c.input(0), c.input(1), c.input(2), "bhsd", Dim(0)};
  const bool has_past = c.input(4) != nullptr || c.input(5) != nullptr;
  if (has_past && (c.input(4) == nullptr || c.input(5) == nullptr)) {
    return invalid_argument("inputs past_key and past_value must be given together");
  }
  if (has_past && c.input(6) != nullptr) {
    return invalid_argument("input nonpad_kv_seqlen does not go together with past_key");
  }
  if (rank == 3) {
    TUTTI_ASSIGN_OR_RETURN(o.q, split_heads(c, 0, "q_num_heads"));
    TUTTI_ASSIGN_OR_RETURN(o.k, split_heads(c, 1, "kv_num_heads"));
    TUTTI_ASSIGN_OR_RETURN(o.v, split_heads(c, 2, "kv_num_heads"));
    o.layout = "bshd";
    if (has_past || c.outputs.size() > 1) {
      o.q = c.b.transpose(o.q, {0, 2, 1, 3});
      o.k = c.b.transpose(o.k, {0, 2, 1, 3});
      o.v = c.b.transpose(o.v, {0, 2, 1, 3});
      o.layout = "bhsd";
    }
  }
  if (has_past) {
    if (c.input(4)->rank() != 4 || c.input(5)->rank() != 4) {
      return invalid_argument("past_key is ", c.input(4)->type(), " and past_value is ",
                              c.input(5)->type(), "; expected rank 4");
    }
    o.past = c.input(4)->shape()[2];
    o.k = c.b.op("Concat", {c.input(4), o.k}, {{"axis", std::int64_t{2}}});
    o.v = c.b.op("Concat", {c.input(5), o.v}, {{"axis", std::int64_t{2}}});
  }
  TUTTI_RETURN_IF_ERROR(c.b.status());
  return o;
}

// A mask may be shorter than the keys: what it does not cover is masked.
Result<Value*> read_mask(LoweringContext& c, const Dim& keys) {
  Value* mask = c.input(3);
  if (mask == nullptr) return mask;
  if (mask->rank() < 1) return invalid_argument("attn_mask is a scalar; expected [.., keys]");
  const Dim& size = mask->shape().back();
  if (size == keys || size.is(1)) return mask;
  const Dim missing = keys - size;
  if (missing.is_constant() && missing.constant() < 0) {
    return invalid_argument("attn_mask is ", mask->type(), ", but there are ", keys, " keys");
  }
  Value* masked = mask->dtype() == DType::kBool
                      ? c.b.scalar(DType::kBool, 0)
                      : c.b.scalar(mask->dtype(), -std::numeric_limits<double>::infinity());
  return c.b.op("Pad", {mask, masked},
                {{"axes", Axes{static_cast<std::int64_t>(mask->rank()) - 1}},
                 {"before", Shape{Dim(0)}},
                 {"after", Shape{missing}},
                 {"mode", std::string("constant")}});
}

// true where query i may attend to key j by is_causal: [s, t].
Value* causal_mask(GraphBuilder& b, const Dim& queries, const Dim& keys, const Dim& offset) {
  Value* one = b.scalar(DType::kInt64, 1);
  Value* first = b.reshape(b.sizes({offset}), {});
  Value* rows = b.op("Iota", {first, one}, {{"size", Shape{queries}}});
  Value* columns = b.op("Iota", {b.scalar(DType::kInt64, 0), one}, {{"size", Shape{keys}}});
  return b.op("LessOrEqual", {columns, b.reshape(rows, {queries, Dim(1)})});
}

// The optional output qk_matmul_output: scores after some of the steps, as ordinary operators. o is
// in layout bhsd.
Result<Value*> scores_output(LoweringContext& c, const Operands& o, Value* mask, double scale,
                             double softcap) {
  const std::int64_t mode = c.attr_int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return invalid_argument("attribute ", mode_name(mode), "; expected 0 to 3");
  if (c.input(6) != nullptr && mode >= 2) {
    return unimplemented("output qk_matmul_output with nonpad_kv_seqlen and ", mode_name(mode),
                         "; modes 0 and 1 are supported");
  }
  GraphBuilder& b = c.b;
  const Shape& q = o.q->shape();
  const Shape& k = o.k->shape();
  const std::optional<Dim> group = k[1].is(0) ? std::nullopt : exact_div(q[1], k[1]);
  if (!group) return invalid_argument("q has ", q[1], " heads, k ", k[1]);
  // Query heads of one key head lie one behind the other, so they are rows of one product.
  Value* rows = b.reshape(o.q, {q[0], k[1], *group * q[2], q[3]});
  Value* scores = b.op("MatMul", {rows, b.transpose(o.k, {0, 1, 3, 2})});
  scores = b.reshape(scores, {q[0], q[1], q[2], k[2]});
  scores = b.op("Mul", {scores, scalar_like(c, o.q, scale)});
  if (mode >= 1 && softcap > 0) {
    Value* cap = scalar_like(c, o.q, softcap);
    scores = b.op("Mul", {b.op("Tanh", {b.op("Div", {scores, cap})}), cap});
  }
  if (mode < 2) return scores;
  Value* lowest = scalar_like(c, o.q, -std::numeric_limits<double>::infinity());
  Value* zero = scalar_like(c, o.q, 0);
  Value* bias = mask;
  if (mask != nullptr && mask->dtype() == DType::kBool) bias = b.op("Where", {mask, zero, lowest});
  if (c.attr_int("is_causal", 0) != 0) {
    Value* causal = b.op("Where", {causal_mask(b, q[2], k[2], o.past), zero, lowest});
    bias = bias == nullptr ? causal : b.op("Add", {bias, causal});
  }
  if (bias != nullptr) scores = b.op("Add", {scores, bias});
  if (mode < 3) return scores;
  Value* weights = b.op("Softmax", {scores}, {{"axis", std::int64_t{3}}});
  if (bias == nullptr) return weights;
  // A row without any key is zero, not what softmax makes of it.
  Value* most = b.op("Reduce", {bias},
                     {{"kind", std::string("max")},
                      {"axes", Axes{static_cast<std::int64_t>(bias->rank()) - 1}},
                      {"keepdims", std::int64_t{1}}});
  return b.op("Where", {b.op("Equal", {most, lowest}), zero, weights});
}

Status lower_attention(LoweringContext& c) {
  TUTTI_ASSIGN_OR_RETURN(Operands o, read_operands(c));
  const AttentionAxes axes = attention_axes(o.layout);
  TUTTI_ASSIGN_OR_RETURN(Value* const mask, read_mask(c, o.k->shape()[axes.tokens]));
  double scale = c.attr_float("scale", 0);
  if (!c.has("scale")) {
    if (!o.q->shape()[3].is_constant() || o.q->shape()[3].is(0)) {
      return invalid_argument("the head size of Q, ", o.q->type(),
                              ", must be a number where attribute 'scale' is absent");
    }
    scale = 1.0 / std::sqrt(static_cast<double>(o.q->shape()[3].constant()));
  }
  const double softcap = c.attr_float("softcap", 0);
  AttributeMap attributes{{"scale", scale},
                          {"is_causal", c.attr_int("is_causal", 0)},
                          {"softcap", softcap},
                          {"layout", o.layout}};
  if (!o.past.is(0)) attributes["causal_offset"] = Shape{o.past};
  Value* out = c.b.op("Attention", {o.q, o.k, o.v, mask, c.input(6)}, std::move(attributes));
  TUTTI_RETURN_IF_ERROR(c.b.status());
  if (c.input(0)->rank() == 3) {
    if (o.layout == "bhsd") out = c.b.transpose(out, {0, 2, 1, 3});
    TUTTI_RETURN_IF_ERROR(c.b.status());
    const Shape& s = out->shape();
    out = c.b.reshape(out, {s[0], s[1], s[2] * s[3]});
  }
  if (c.outputs.size() > 1) c.outputs[1] = o.k;
  if (c.outputs.size() > 2) c.outputs[2] = o.v;
  if (c.outputs.size() > 3) {
    TUTTI_ASSIGN_OR_RETURN(c.outputs[3], scores_output(c, o, mask, scale, softcap));
  }
  return finish(c, out);
}

}  // namespace

void register_attention_lowerings(LoweringRegistry* lowerings) {
  // softmax_precision asks for at least that precision; ours is f32, or f64 for f64.
  lowerings->add({.domain = "",
                  .op_type = "Attention",
                  .since_opset = 23,
                  .attributes = {"is_causal", "kv_num_heads", "q_num_heads",
                                 "qk_matmul_output_mode", "scale", "softcap", "softmax_precision"},
                  .lower = lower_attention});
}

}  // namespace tutti
