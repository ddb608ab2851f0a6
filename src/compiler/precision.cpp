#include "compiler/precision.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/op_def.h"

namespace tutti {
namespace {

bool is_f32(const Value* value) { return value != nullptr && value->dtype() == DType::kFloat32; }

bool is_computed_f32(const Value* value) { return is_f32(value) && !value->is_constant(); }

// A product that adds up nothing: [n, 1] x [1, m], as rotary embeddings have it.
bool is_outer_product(const Node& node) {
  return node.type() == "MatMul" && node.input(0)->rank() > 0 &&
         node.input(0)->shape().back().is(1);
}

// Rows, not single numbers, of a table: an embedding.
bool looks_up_rows(const Node& node) {
  if (!node.type().starts_with("Gather") || !node.input(0)->is_constant()) return false;
  return node.input(0)->rank() > 1 && node.output()->rank() > 0 &&
         !node.output()->shape().back().is(1);
}

bool makes_features(const Node& node) {
  static constexpr std::array<std::string_view, 11> kTypes = {"MatMul",
                                                              "Linear",
                                                              "Conv",
                                                              "ConvTranspose",
                                                              "Pool",
                                                              "Attention",
                                                              "RMSNormalization",
                                                              "LayerNormalization",
                                                              "GroupNorm",
                                                              "Softmax",
                                                              "LogSoftmax"};
  const bool is_listed = std::find(kTypes.begin(), kTypes.end(), node.type()) != kTypes.end();
  return (is_listed && !is_outer_product(node)) || looks_up_rows(node);
}

bool is_statistic(const Node& node) {
  if (node.type() == "CumSum") return true;
  if (node.type() != "Reduce") return false;
  const std::string kind = node.attr_string("kind");
  return kind != "max" && kind != "min";
}

bool is_number_per_batch_element(const Value& input) {
  Dim rest = 1;
  for (std::size_t d = 1; d < input.rank(); ++d) rest = rest * input.shape()[d];
  return rest.is(1);
}

// Values that reach a Sin or Cos through anything but what makes features.
std::unordered_set<const Value*> angles(const Graph& graph) {
  std::unordered_set<const Value*> found;
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    const Node& node = **it;
    const auto& outputs = node.outputs();
    const bool leads_to_one =
        node.type() == "Sin" || node.type() == "Cos" ||
        (!makes_features(node) && std::any_of(outputs.begin(), outputs.end(),
                                              [&](const Value* v) { return found.contains(v); }));
    if (leads_to_one) found.insert(node.inputs().begin(), node.inputs().end());
  }
  return found;
}

// Statistics, and the pointwise nodes that only they read.
std::unordered_set<const Node*> statistics(const Graph& graph) {
  std::unordered_set<const Node*> found;
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    const Node& node = **it;
    if (!is_f32(node.output())) continue;
    const auto& users = node.output()->users();
    const auto& results = graph.outputs();
    const bool serves_only_statistics =
        node.op().is_pointwise && !users.empty() &&
        std::find(results.begin(), results.end(), node.output()) == results.end() &&
        std::all_of(users.begin(), users.end(), [&](const Node* u) { return found.contains(u); });
    if (is_statistic(node) || serves_only_statistics) found.insert(&node);
  }
  return found;
}

}  // namespace

FullPrecision full_precision(const Graph& graph) {
  FullPrecision full;
  const auto angle_values = angles(graph);
  for (const Value* input : graph.inputs()) {
    const bool stays = angle_values.contains(input) || is_number_per_batch_element(*input);
    if (is_f32(input) && stays) full.values.insert(input);
  }
  const auto statistic_nodes = statistics(graph);
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    const bool has_only_full =
        std::all_of(node.inputs().begin(), node.inputs().end(),
                    [&](const Value* v) { return !is_computed_f32(v) || full.values.contains(v); });
    if (!statistic_nodes.contains(&node) && (makes_features(node) || !has_only_full)) continue;
    full.nodes.insert(&node);
    for (const Value* output : node.outputs()) {
      if (is_f32(output)) full.values.insert(output);
    }
  }
  return full;
}

}  // namespace tutti
