// Recognises attention in the pieces that exporters write it in. The anchor is a Softmax over the
// last axis: below it scores (a product, scaled and masked in any spelling), above it the product
// with the values.
#include "compiler/attention_match.h"
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

// [m, s, d] -> [1, m, s, d]: merged batch and heads count as heads.
Value* with_rank_4(GraphBuilder& b, Value* value) {
  if (value == nullptr || value->rank() == 4) return value;
  Shape shape = value->shape();
  shape.insert(shape.begin(), Dim(1));
  return b.reshape(value, std::move(shape));
}

// The mask as Attention takes it: rank <= 4, bool or of q's type.
Value* attention_mask(GraphBuilder& b, const ScoresMatch& match, std::size_t score_rank) {
  Value* mask = match.mask;
  if (mask == nullptr) return nullptr;
  if (match.mask_is_inverted) mask = b.op("Not", {mask});
  if (mask == nullptr) return nullptr;
  if (score_rank == 3 && mask->rank() == 3) mask = with_rank_4(b, mask);
  return mask->dtype() == DType::kBool ? mask : b.cast(mask, match.q->dtype());
}

struct AttentionMatch {
  ScoresMatch scores;
  Value* v = nullptr;
  Value* output = nullptr;
};

std::optional<AttentionMatch> match_attention(const Graph& graph, const Node& softmax) {
  const auto rank = static_cast<std::int64_t>(softmax.input(0)->rank());
  if ((rank != 3 && rank != 4) || softmax.attr_int("axis") != rank - 1) return std::nullopt;
  const auto scores = match_scores(softmax.input(0));
  if (!scores) return std::nullopt;
  // Above: a cast back, then the product with the values.
  Value* weights = softmax.output();
  if (!has_single_use(graph, weights)) return std::nullopt;
  if (weights->users()[0]->type() == "Cast") {
    weights = weights->users()[0]->output();
    if (!has_single_use(graph, weights)) return std::nullopt;
  }
  const Node* product = weights->users()[0];
  if (product->type() != "MatMul" || product->input(0) != weights) return std::nullopt;
  AttentionMatch match{*scores, product->input(1), product->output()};
  const auto same_rank = static_cast<std::size_t>(rank);
  if (match.v->rank() != same_rank || scores->q->rank() != same_rank ||
      scores->k->rank() != same_rank) {
    return std::nullopt;
  }
  if (match.v->dtype() != match.scores.q->dtype() || match.scores.k->dtype() != match.v->dtype() ||
      match.output->dtype() != match.v->dtype()) {
    return std::nullopt;
  }
  // MatMul broadcasts batch and heads; Attention groups heads and nothing else.
  for (std::size_t d = 0; d + 2 < same_rank; ++d) {
    const Dim& size = scores->q->shape()[d];
    if (scores->k->shape()[d] != size || match.v->shape()[d] != size) return std::nullopt;
  }
  return match;
}

Value* build_attention(GraphBuilder& b, const AttentionMatch& match) {
  const std::size_t rank = match.output->rank();
  Value* q = with_rank_4(b, match.scores.q);
  Value* k = match.scores.k;
  if (match.scores.k_is_transposed) {
    std::vector<std::int64_t> perm = {0, 1, 2, 3};
    perm.resize(rank);
    std::swap(perm[rank - 1], perm[rank - 2]);
    k = b.transpose(k, perm);
  }
  k = with_rank_4(b, k);
  Value* v = with_rank_4(b, match.v);
  if (!b.status().ok()) return nullptr;
  Value* mask = attention_mask(b, match.scores, rank);
  AttributeMap attributes = {{"scale", match.scores.scale}, {"layout", std::string("bhsd")}};
  if (match.scores.softcap > 0) attributes["softcap"] = match.scores.softcap;
  Value* y = b.op("Attention", {q, k, v, mask}, std::move(attributes));
  return rank == 4 || y == nullptr ? y : b.reshape(y, match.output->shape());
}

// Query heads that share key/value heads need no copies of them.
Status drop_repeats(Graph& graph, GraphBuilder& b) {
  for (const auto& owned : graph.nodes()) {
    Node& node = *owned;
    if (node.type() != "Attention") continue;
    const int heads = node.attr_string("layout") == "bhsd" ? 1 : 2;
    b.set_insertion_point(&node);
    b.set_name(node.name());
    const auto k = match_head_repeat(node.input(1), heads);
    const auto v = match_head_repeat(node.input(2), heads);
    if (!k || !v || k->repeats != v->repeats) continue;
    Value* grouped_k = build_without_repeat(b, *k);
    Value* grouped_v = build_without_repeat(b, *v);
    TUTTI_RETURN_IF_ERROR(b.status());
    node.set_input(1, grouped_k);
    node.set_input(2, grouped_v);
  }
  return {};
}

}  // namespace

Status fuse_attention(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (node.type() != "Softmax") continue;
    const auto match = match_attention(graph, node);
    if (!match) continue;
    // Before the product with the values: all operands exist there.
    Node* product = match->output->producer();
    b.set_insertion_point(product);
    b.set_name(product->name());
    Value* y = build_attention(b, *match);
    if (const Status status = b.take_status(); !status.ok()) {
      // A mask that Attention does not take, say: the pieces stay as they are.
      continue;
    }
    replace_value(graph, match->output, y);
  }
  TUTTI_RETURN_IF_ERROR(drop_repeats(graph, b));
  graph.remove_dead();
  return {};
}

Status drop_head_repeats(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  TUTTI_RETURN_IF_ERROR(drop_repeats(graph, b));
  return simplify(graph, options);
}

}  // namespace tutti
