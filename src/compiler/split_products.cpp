// A product whose columns are cut apart right away (gate and up projections, packed q, k, v)
// becomes one product for each piece, with a piece of the weight: no copy of the activations, and
// each can be split over ranks by itself.
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

constexpr std::int64_t kMinColumns = 32;  // narrower products waste the kernel's width

struct CutProduct {
  const Node* product = nullptr;
  Value* bias = nullptr;  // [n], constant
  Shape sizes;            // columns of each piece
};

std::optional<CutProduct> match_cut(const Graph& graph, const Node& split) {
  if (split.type() != "Split" || split.outputs().size() > 4) return std::nullopt;
  Value* x = split.input(0);
  if (split.attr_int("axis") != static_cast<std::int64_t>(x->rank()) - 1) return std::nullopt;
  CutProduct match;
  match.sizes = split.attr_dims("sizes");
  for (const Dim& size : match.sizes) {
    if (!size.is_constant() || size.constant() < kMinColumns) return std::nullopt;
  }
  if (!has_single_use(graph, x)) return std::nullopt;
  match.product = producer_of(x, "MatMul");
  if (match.product == nullptr) {
    const Node* add = producer_of(x, "Add");
    if (add == nullptr) return std::nullopt;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      Value* bias = add->input(1 - side);
      match.product = producer_of(add->input(side), "MatMul");
      if (match.product == nullptr || !bias->is_constant() || bias->rank() != 1) continue;
      if (bias->shape()[0] != x->shape().back()) continue;
      match.bias = bias;
      break;
    }
    if (match.bias == nullptr || !has_single_use(graph, match.product->output())) {
      return std::nullopt;
    }
  }
  const Value* weight = match.product->input(1);
  if (!weight->is_constant() || weight->rank() != 2) return std::nullopt;
  return match;
}

}  // namespace

Status split_products(Graph& graph, const CompileOptions& options) {
  if (options.evaluator == nullptr) return {};  // nothing would cut the weight at compile time
  GraphBuilder b(&graph, options.registry, options.evaluator);
  for (const auto& owned : graph.nodes()) {
    Node& split = *owned;
    const auto match = match_cut(graph, split);
    if (!match) continue;
    b.set_insertion_point(&split);
    b.set_name(match->product->name());
    Dim start = 0;
    for (std::size_t i = 0; i < match->sizes.size(); ++i) {
      const Dim end = start + match->sizes[i];
      Value* weight = b.slice(match->product->input(1), {1}, {start}, {end});
      Value* y = b.op("MatMul", {match->product->input(0), weight});
      if (match->bias != nullptr) {
        y = b.op("Add", {y, b.slice(match->bias, {0}, {start}, {end})});
      }
      TUTTI_RETURN_IF_ERROR(b.status());
      replace_value(graph, split.output(i), y);
      start = end;
    }
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
