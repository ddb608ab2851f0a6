// The core operator Attention: softmax(softcap(scale * q k^T) + mask) v with grouped heads.
//
// A query row that may attend to no key gives zeros, as ONNX's Attention does. With is_causal,
// query i attends to key j iff j <= i + causal_offset; with key_lengths the offset is the key
// length of the batch element minus the number of queries.
#include "ops/attention.h"

#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

Status check_heads(const Node& node, const AttentionAxes& axes) {
  const Value& q = *node.input(0);
  const Value& k = *node.input(1);
  const Value& v = *node.input(2);
  const Dim& q_heads = q.shape()[axes.heads];
  const Dim& kv_heads = k.shape()[axes.heads];
  const auto describe = [&](std::string_view problem) {
    return invalid_argument(problem, ": q is ", q.type(), ", k is ", k.type(), ", v is ", v.type(),
                            ", layout ", node.attr_string("layout"));
  };
  // Symbolic head counts are the local ones of a split: the kernel sees their numbers.
  if (q_heads.is_constant() && kv_heads.is_constant() && !q_heads.is(0) &&
      (kv_heads.is(0) || q_heads.constant() % kv_heads.constant() != 0)) {
    return describe("query heads are no multiple of the key/value heads");
  }
  if (surely_differ(kv_heads, v.shape()[axes.heads])) return describe("k and v differ in heads");
  if (surely_differ(k.shape()[axes.tokens], v.shape()[axes.tokens])) {
    return describe("k and v differ in tokens");
  }
  if (surely_differ(q.shape()[3], k.shape()[3])) return describe("q and k differ in head size");
  if (surely_differ(q.shape()[0], k.shape()[0]) || surely_differ(q.shape()[0], v.shape()[0])) {
    return describe("batch sizes differ");
  }
  return {};
}

// Types of an attention over `all_keys` keys, of which k and v may be a piece.
Result<std::vector<TensorType>> attention_types(const Node& node, const Dim& all_keys) {
  const std::string layout = node.attr_string("layout");
  if (layout != "bhsd" && layout != "bshd") {
    return invalid_argument("attribute 'layout' is '", layout, "'; expected bhsd or bshd");
  }
  const AttentionAxes axes = attention_axes(layout);
  const Value& q = *node.input(0);
  TUTTI_RETURN_IF_ERROR(check_floating(q, "q"));
  for (std::size_t i = 0; i < 3; ++i) {
    const Value& value = *node.input(i);
    if (value.rank() != 4 || value.dtype() != q.dtype()) {
      return invalid_argument("operand ", i, " is ", value.type(), "; expected rank 4 and ",
                              dtype_name(q.dtype()));
    }
  }
  TUTTI_RETURN_IF_ERROR(check_heads(node, axes));
  const Shape scores{q.shape()[0], q.shape()[axes.heads], q.shape()[axes.tokens], all_keys};
  if (const Value* mask = node.input(3); mask != nullptr) {
    if (mask->dtype() != DType::kBool && mask->dtype() != q.dtype()) {
      return invalid_argument("mask is ", mask->type(), "; expected bool or ",
                              dtype_name(q.dtype()));
    }
    const auto shape = broadcast_shapes(scores, mask->shape());
    if (mask->rank() > 4 || !shape.ok() || *shape != scores) {
      return invalid_argument("mask ", mask->type(),
                              " does not broadcast to [batch, heads, queries, keys] ", scores);
    }
  }
  if (const Value* lengths = node.input(4); lengths != nullptr) {
    if (lengths->dtype() != DType::kInt64 || lengths->rank() != 1 ||
        surely_differ(lengths->shape()[0], q.shape()[0])) {
      return invalid_argument("key_lengths is ", lengths->type(), "; expected i64[", q.shape()[0],
                              "]");
    }
  }
  if (node.attr_dims("causal_offset").size() > 1) {
    return invalid_argument("attribute 'causal_offset' is ", node.attr_dims("causal_offset"),
                            "; expected one size");
  }
  if (node.attr_float("softcap") < 0) {
    return invalid_argument("attribute 'softcap' is ", node.attr_float("softcap"),
                            "; expected 0 or more");
  }
  Shape shape = q.shape();
  shape[3] = node.input(2)->shape()[3];
  return one_type(q.dtype(), std::move(shape));
}

Result<std::vector<TensorType>> infer_attention(const Node& node, int /*num_outputs*/) {
  const Value& k = *node.input(1);
  const std::size_t tokens = attention_axes(node.attr_string("layout")).tokens;
  return attention_types(node, k.rank() == 4 ? k.shape()[tokens] : Dim(0));
}

// Each rank has a piece of k and v along their tokens, as AllGather would put together.
Result<std::vector<TensorType>> infer_ring_attention(const Node& node, int /*num_outputs*/) {
  const Shape size = node.attr_dims("size");
  const std::int64_t ranks = node.attr_int("ranks");
  if (size.size() != 1 || ranks < 1 || node.attr_string("axis").empty()) {
    return invalid_argument("axis '", node.attr_string("axis"), "', ranks ", ranks, " and size ",
                            size, "; expected a mesh axis, its ranks and one size");
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<TensorType> types, attention_types(node, size[0]));
  const std::size_t tokens = attention_axes(node.attr_string("layout")).tokens;
  const Dim& keys = node.input(1)->shape()[tokens];
  const Dim rank = Dim::symbol("rank." + node.attr_string("axis"));
  const Shape segments = node.attr_dims("segments");
  Dim expected = segments.empty() ? part(size[0], ranks, rank) : Dim(0);
  Dim sum = segments.empty() ? size[0] : Dim(0);
  for (const Dim& segment : segments) {
    expected = expected + part(segment, ranks, rank);
    sum = sum + segment;
  }
  if (sum != size[0]) {
    return invalid_argument("segments ", segments, " add up to ", sum, ", expected ", size[0]);
  }
  if (keys != expected) {
    return invalid_argument("k has ", keys, " tokens, expected ", expected);
  }
  if (node.attr_int("is_causal") != 0 && node.input(4) != nullptr) {
    return invalid_argument("key_lengths with is_causal: no rank knows where its queries stand");
  }
  return types;
}

// (b (g r) s d),(b g t d),(b g t e)->(b (g r) s e): g key/value heads, each with r query heads.
FactorMap attention_factors(const Node& node) {
  const AttentionAxes axes = attention_axes(node.attr_string("layout"));
  FactorMap map = empty_factors(node);
  const Shape& q = node.input(0)->shape();
  const Shape& k = node.input(1)->shape();
  const bool is_causal = node.attr_int("is_causal") != 0;
  const auto add = [&map](std::string_view name, const Dim& size,
                          FactorRole role) -> std::vector<int> {
    if (size.is(1)) return {};
    return {map.add(std::string(name), size, role)};
  };
  const auto b = add("b", q[0], FactorRole::kParallel);
  std::optional<Dim> group_size;
  if (!k[axes.heads].is(0)) group_size = exact_div(q[axes.heads], k[axes.heads]);
  const auto g = add("g", k[axes.heads], group_size ? FactorRole::kParallel : FactorRole::kWhole);
  std::vector<int> heads;
  if (group_size) {
    heads = g;
    const auto r = add("r", *group_size, FactorRole::kParallel);
    for (const int factor : r) heads.push_back(factor);
  } else {
    heads = add("h", q[axes.heads], FactorRole::kWhole);
  }
  // With key_lengths the causal offset hangs on the number of all queries.
  const bool needs_all_queries = is_causal && node.input(4) != nullptr;
  const auto s =
      add("s", q[axes.tokens], needs_all_queries ? FactorRole::kWhole : FactorRole::kParallel);
  const auto t = add("t", k[axes.tokens], FactorRole::kWhole);
  const auto d = add("d", q[3], FactorRole::kWhole);
  const auto e = add("e", node.output()->shape()[3], FactorRole::kWhole);
  const auto fill = [&](DimFactors* row, const std::vector<int>& head,
                        const std::vector<int>& token, const std::vector<int>& last) {
    (*row)[0] = b;
    (*row)[axes.heads] = head;
    (*row)[axes.tokens] = token;
    (*row)[3] = last;
  };
  fill(&map.inputs[0], heads, s, d);
  fill(&map.inputs[1], g, t, d);
  fill(&map.inputs[2], g, t, e);
  fill(&map.outputs[0], heads, s, e);
  if (const Value* mask = node.input(3); mask != nullptr) {
    const std::vector<int>* rows[4] = {&b, &heads, &s, &t};
    for (std::size_t i = 0; i < mask->rank(); ++i) {
      if (!mask->shape()[i].is(1)) map.inputs[3][i] = *rows[4 - mask->rank() + i];
    }
  }
  if (node.input(4) != nullptr) map.inputs[4][0] = b;
  return map;
}

Dim flops_over(const Node& node, const Dim& keys) {
  const Shape& q = node.input(0)->shape();
  return Dim(2) * q[0] * q[1] * q[2] * keys * (q[3] + node.output()->shape()[3]);
}

Dim attention_flops(const Node& node) {
  const AttentionAxes axes = attention_axes(node.attr_string("layout"));
  return flops_over(node, node.input(1)->shape()[axes.tokens]);
}

Dim ring_attention_flops(const Node& node) { return flops_over(node, node.attr_dims("size")[0]); }

}  // namespace

void register_attention_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef attention{.type = "Attention",
                  .domain = "ai.tutti",
                  .min_inputs = 3,
                  .max_inputs = 5,
                  .attributes = {{"scale", AttributeKind::kFloat, true},
                                 {"is_causal", AttributeKind::kInt},
                                 {"causal_offset", AttributeKind::kDims},
                                 {"softcap", AttributeKind::kFloat},
                                 {"layout", AttributeKind::kString, true}},
                  .infer = infer_attention,
                  .factors = attention_factors,
                  .flops = attention_flops};
  OpDef ring = attention;
  ring.type = "RingAttention";
  ring.attributes.push_back({"axis", AttributeKind::kString, true});
  ring.attributes.push_back({"ranks", AttributeKind::kInt, true});
  ring.attributes.push_back({"size", AttributeKind::kDims, true});
  ring.infer = infer_ring_attention;
  ring.factors = nullptr;
  ring.flops = ring_attention_flops;
  ring.is_exchange = true;
  OpDef joined = ring;
  joined.type = "JoinedRingAttention";
  joined.attributes.push_back({"segments", AttributeKind::kDims, true});
  ops->add(std::move(attention));
  ops->add(std::move(ring));
  ops->add(std::move(joined));
  register_attention_lowerings(lowerings);
  register_rotary_lowering(lowerings);
}

}  // namespace tutti
