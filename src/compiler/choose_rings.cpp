#include <algorithm>
#include <set>

#include "compiler/cost.h"
#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// Keys or values of an attention that come from pieces and serve nobody else. Segments: sequences
// that are joined, each of which is gathered by itself.
struct GatheredOperand {
  std::vector<const Value*> segments;
};

// The node that gathers a value along the tokens, for nobody but `attention`.
const Node* gather_of(const Graph& graph, const Node& attention, const Value* value) {
  const Node* gather = producer_of(value, "AllGather");
  if (gather == nullptr || !has_single_use(graph, value)) return nullptr;
  const bool is_along_tokens = gather->attr_int("dim") == token_dimension(attention) &&
                               gather->attr_int("replicas", 1) == 1 &&
                               gather->attr_dims("units") == gather->attr_dims("size");
  return is_along_tokens ? gather : nullptr;
}

std::optional<GatheredOperand> gathered_operand(const Graph& graph, const Node& attention,
                                                std::size_t operand) {
  const Value* value = attention.input(operand);
  GatheredOperand found{{value}};
  const Node* join = producer_of(value, "Concat");
  if (join != nullptr && join->attr_int("axis") == token_dimension(attention)) {
    if (!has_single_use(graph, value)) return std::nullopt;
    found.segments.assign(join->inputs().begin(), join->inputs().end());
  }
  for (const Value* segment : found.segments) {
    if (gather_of(graph, attention, segment) == nullptr) return std::nullopt;
  }
  return found;
}

// k and v, gathered by one node or by several that do nothing else.
struct GatheredKeys {
  GatheredOperand k;
  GatheredOperand v;
  const Node* gather() const { return k.segments[0]->producer(); }
};

std::optional<GatheredKeys> gathered_keys(const Graph& graph, const Node& node) {
  if (node.type() != "Attention" || node.input(0)->dtype() == DType::kFloat64) return std::nullopt;
  if (node.attr_int("is_causal") != 0 && node.input(4) != nullptr) return std::nullopt;
  auto k = gathered_operand(graph, node, 1);
  auto v = gathered_operand(graph, node, 2);
  if (!k || !v || k->segments.size() != v->segments.size()) return std::nullopt;
  const int tokens = token_dimension(node);
  std::set<const Value*> gathered(k->segments.begin(), k->segments.end());
  gathered.insert(v->segments.begin(), v->segments.end());
  const std::string axis = k->segments[0]->producer()->attr_string("axis");
  for (std::size_t i = 0; i < k->segments.size(); ++i) {
    const auto at = static_cast<std::size_t>(tokens);
    if (k->segments[i]->shape()[at] != v->segments[i]->shape()[at]) return std::nullopt;
  }
  for (const Value* value : gathered) {
    const Node& gather = *value->producer();
    const bool is_alone = std::all_of(gather.outputs().begin(), gather.outputs().end(),
                                      [&](const Value* one) { return gathered.contains(one); });
    if (gather.attr_string("axis") != axis || !is_alone) return std::nullopt;
  }
  return GatheredKeys{*std::move(k), *std::move(v)};
}

// Each step beyond the first is an exchange more; what is not held is all pieces but three: this
// rank's own, the one at hand and the next.
bool is_ring_cheaper(const Node& node, const GatheredKeys& keys, const CompileOptions& options) {
  const auto ranks = static_cast<double>(keys.gather()->attr_int("ranks"));
  const SizeEstimate size(options.typical_sizes);
  double bytes = 0;
  for (const std::size_t operand : {std::size_t{1}, std::size_t{2}}) {
    const Value& value = *node.input(operand);
    bytes += size(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
  }
  const double saved = bytes * std::max(0.0, ranks - 3) / ranks;
  return (ranks - 2) * options.rates.seconds_per_exchange <
         saved * options.rates.seconds_per_byte_held;
}

Value* piece_of(const Value* whole) {
  return whole->producer()->input(static_cast<std::size_t>(whole->producer_output()));
}

// The value that the pieces of all segments were cut out of, one after the other; null: none.
Value* joined_piece(const std::vector<Value*>& pieces, int tokens) {
  Value* source = nullptr;
  Dim end = 0;
  for (const Value* piece : pieces) {
    const Node* slice = producer_of(piece, "Slice");
    if (slice == nullptr || slice->attr_ints("axes") != std::vector<std::int64_t>{tokens} ||
        slice->attr_ints("steps") != std::vector<std::int64_t>{1} ||
        slice->attr_dims("starts")[0] != end || (source != nullptr && slice->input(0) != source)) {
      return nullptr;
    }
    source = slice->input(0);
    end = slice->attr_dims("ends")[0];
  }
  return source->shape()[static_cast<std::size_t>(tokens)] == end ? source : nullptr;
}

Value* piece_of(const GatheredOperand& operand, int tokens, GraphBuilder& b) {
  std::vector<Value*> pieces;
  for (const Value* segment : operand.segments) pieces.push_back(piece_of(segment));
  if (pieces.size() == 1) return pieces[0];
  if (Value* joined = joined_piece(pieces, tokens)) return joined;
  return b.op("Concat", std::move(pieces), {{"axis", std::int64_t{tokens}}});
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

// Every rank's piece of joined keys is a piece of each of their sequences. That is taken where it
// is asked for: not every backend has it.
Status choose_rings(Graph& graph, const CompileOptions& options) {
  if (options.attention_exchange == AttentionExchange::kGather) return {};
  GraphBuilder b(&graph, options.registry);
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    const auto keys = gathered_keys(graph, *node);
    if (!keys) continue;
    const bool is_joined = keys->k.segments.size() > 1;
    const bool is_asked_for = options.attention_exchange == AttentionExchange::kRing;
    if (!is_asked_for && (is_joined || !is_ring_cheaper(*node, *keys, options))) continue;
    const int tokens = token_dimension(*node);
    b.set_insertion_point(node);
    b.set_name(node->name());
    std::vector<Value*> inputs = node->inputs();
    inputs[1] = piece_of(keys->k, tokens, b);
    inputs[2] = piece_of(keys->v, tokens, b);
    AttributeMap attributes = node->attributes();
    const Node& gather = *keys->gather();
    attributes["axis"] = gather.attr_string("axis");
    attributes["ranks"] = gather.attr_int("ranks");
    Shape segments;
    Dim size = 0;
    for (const Value* segment : keys->k.segments) {
      segments.push_back(segment->shape()[static_cast<std::size_t>(tokens)]);
      size = size + segments.back();
    }
    attributes["size"] = Shape{size};
    if (is_joined) attributes["segments"] = std::move(segments);
    Value* y = b.op(is_joined ? "JoinedRingAttention" : "RingAttention", std::move(inputs),
                    std::move(attributes));
    TUTTI_RETURN_IF_ERROR(b.take_status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
