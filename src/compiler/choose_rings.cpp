#include <algorithm>

#include "compiler/cost.h"
#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// Where an attention's operand comes from, when it is gathered along its tokens for nobody else.
const Node* gather_of(const Graph& graph, const Node& attention, std::size_t operand) {
  const Value* value = attention.input(operand);
  const Node* gather = producer_of(value, "AllGather");
  if (gather == nullptr || !has_single_use(graph, value)) return nullptr;
  const bool is_along_tokens = gather->attr_int("dim") == token_dimension(attention) &&
                               gather->attr_int("replicas", 1) == 1 &&
                               gather->attr_dims("units") == gather->attr_dims("size");
  return is_along_tokens ? gather : nullptr;
}

// The gathers of k and v, one node or two.
struct GatheredKeys {
  const Node* k = nullptr;
  const Node* v = nullptr;
};

std::optional<GatheredKeys> gathered_keys(const Graph& graph, const Node& node) {
  if (node.type() != "Attention" || node.input(0)->dtype() == DType::kFloat64) return std::nullopt;
  if (node.attr_int("is_causal") != 0 && node.input(4) != nullptr) return std::nullopt;
  const GatheredKeys keys{gather_of(graph, node, 1), gather_of(graph, node, 2)};
  if (keys.k == nullptr || keys.v == nullptr) return std::nullopt;
  if (keys.k->attr_string("axis") != keys.v->attr_string("axis")) return std::nullopt;
  // Nothing else may travel in the same transfer.
  const std::size_t expected = keys.k == keys.v ? 2 : 1;
  if (keys.k->inputs().size() != expected || keys.v->inputs().size() != expected) {
    return std::nullopt;
  }
  return keys;
}

// Each step beyond the first is an exchange more; what is not held is all pieces but two.
bool is_ring_cheaper(const Node& node, const GatheredKeys& keys, const CompileOptions& options) {
  const auto ranks = static_cast<double>(keys.k->attr_int("ranks"));
  const SizeEstimate size(options.typical_sizes);
  double bytes = 0;
  for (const std::size_t operand : {std::size_t{1}, std::size_t{2}}) {
    const Value& value = *node.input(operand);
    bytes += size(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
  }
  const double saved = bytes * std::max(0.0, ranks - 2) / ranks;
  return (ranks - 2) * options.rates.seconds_per_exchange <
         saved * options.rates.seconds_per_byte_held;
}

Value* piece_of(const Value* whole) {
  return whole->producer()->input(static_cast<std::size_t>(whole->producer_output()));
}

}  // namespace

Result<AttentionExchange> parse_attention_exchange(std::string_view text) {
  if (text == "auto") return AttentionExchange::kAuto;
  if (text == "heads") return AttentionExchange::kHeads;
  if (text == "gather") return AttentionExchange::kGather;
  if (text == "ring") return AttentionExchange::kRing;
  return invalid_argument("attention exchange '", text,
                          "' is unknown; expected auto, heads, gather or ring");
}

Status choose_rings(Graph& graph, const CompileOptions& options) {
  if (options.attention_exchange == AttentionExchange::kGather) return {};
  GraphBuilder b(&graph, options.registry);
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    const auto keys = gathered_keys(graph, *node);
    if (!keys) continue;
    const bool is_asked_for = options.attention_exchange == AttentionExchange::kRing;
    if (!is_asked_for && !is_ring_cheaper(*node, *keys, options)) continue;
    std::vector<Value*> inputs = node->inputs();
    inputs[1] = piece_of(inputs[1]);
    inputs[2] = piece_of(inputs[2]);
    AttributeMap attributes = node->attributes();
    for (const char* name : {"axis", "ranks", "size"}) {
      attributes[name] = keys->k->attributes().find(name)->second;
    }
    b.set_insertion_point(node);
    b.set_name(node->name());
    Value* y = b.op("RingAttention", std::move(inputs), std::move(attributes));
    TUTTI_RETURN_IF_ERROR(b.take_status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
