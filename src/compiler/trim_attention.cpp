// What attentions are given in vain: rows that fill a sequence up to some length and that a fixed
// mask closes to all queries, queries whose results are cut off again, features that are zero.
// Kernels that want multiples of a block length ask models for them; ours do not. A split of tokens
// ends at such a Pad, since its pieces are not those of the filled sequence.
#include <algorithm>

#include "compiler/attention_tokens.h"
#include "compiler/match.h"
#include "compiler/open_keys.h"
#include "compiler/passes.h"
#include "ops/attention.h"

namespace tutti {
namespace {

struct Range {
  Dim start = 0;
  Dim end = 0;

  bool is_whole(const Value& value, std::size_t dim) const {
    return start.is(0) && end == value.shape()[dim];
  }
  bool operator==(const Range&) const = default;
};

bool contains(const Range& outer, const Range& inner) {
  return is_never_negative(inner.start - outer.start) && is_never_negative(outer.end - inner.end);
}

// A Pad with zeros.
const Node* zero_pad(const Value* value) {
  const Node* pad = producer_of(value, "Pad");
  if (pad == nullptr || pad->attr_string("mode", "constant") != "constant") return nullptr;
  const Value* number = pad->inputs().size() > 1 ? pad->input(1) : nullptr;
  return number == nullptr || scalar_of(number) == 0.0 ? pad : nullptr;
}

// The part of `dim` that is not padding.
Range unpadded(const Value* value, std::size_t dim) {
  Dim before = 0;
  Dim size = value->shape()[dim];
  for (const Node* pad = zero_pad(value); pad != nullptr; pad = zero_pad(pad->input(0))) {
    const auto axes = pad->attr_ints("axes");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] == static_cast<std::int64_t>(dim)) before = before + pad->attr_dims("before")[i];
    }
    size = pad->input(0)->shape()[dim];
  }
  return {before, before + size};
}

// `value` in this range of `dim`, without what a Pad on the way adds outside of it.
Value* cut(GraphBuilder& b, Value* value, std::size_t dim, const Range& range) {
  if (range.is_whole(*value, dim)) return value;
  const auto axis = static_cast<std::int64_t>(dim);
  if (const Node* pad = zero_pad(value)) {
    Value* x = pad->input(0);
    AttributeMap attributes = pad->attributes();
    auto& axes = std::get<std::vector<std::int64_t>>(attributes["axes"]);
    const auto at = std::find(axes.begin(), axes.end(), axis);
    Range inside = range;
    if (at != axes.end()) {
      const auto i = at - axes.begin();
      auto& before = std::get<Shape>(attributes["before"]);
      auto& after = std::get<Shape>(attributes["after"]);
      const Dim first = before[static_cast<std::size_t>(i)];
      inside = {range.start - first, range.end - first};
      if (!contains({0, x->shape()[dim]}, inside)) {
        return b.slice(value, {axis}, {range.start}, {range.end});
      }
      axes.erase(at);
      before.erase(before.begin() + i);
      after.erase(after.begin() + i);
    }
    const bool is_left = !axes.empty();
    x = cut(b, x, dim, inside);
    if (!is_left) return x;
    std::vector<Value*> inputs = pad->inputs();
    inputs[0] = x;
    return b.op("Pad", std::move(inputs), std::move(attributes));
  }
  return b.slice(value, {axis}, {range.start}, {range.end});
}

class AttentionTrimmer {
 public:
  AttentionTrimmer(Graph& graph, const CompileOptions& options)
      : graph_(graph), b_(&graph, options.registry, options.evaluator) {}

  Result<bool> run() {
    bool changed = false;
    for (Node* attention : attentions_of(graph_)) {
      b_.set_insertion_point(attention);
      b_.set_name(attention->name());
      changed |= trim(*attention);
      TUTTI_RETURN_IF_ERROR(b_.take_status());
    }
    if (changed) graph_.remove_dead();
    return changed;
  }

 private:
  struct Trims {
    Range features;  // of queries and keys
    Range results;   // of values
    Range queries;
    Range keys;
    bool has_mask = true;  // that closes some of these keys
  };

  bool trim(Node& attention) {
    const std::size_t tokens = attention_axes(attention.attr_string("layout")).tokens;
    const Value& q = *attention.input(0);
    const Value& k = *attention.input(1);
    const Value& v = *attention.input(2);
    Trims trims = {common_features(q, k), unpadded(&v, kFeatures), read_queries(attention, tokens),
                   Range{0, k.shape()[tokens]}};
    if (const auto open = needed_keys(attention, trims.queries)) {
      trims.keys = {open->first, open->end};
      trims.has_mask = !open->are_all_open;
    }
    if (trims.features.is_whole(q, kFeatures) && trims.results.is_whole(v, kFeatures) &&
        trims.queries.is_whole(q, tokens) && trims.keys.is_whole(k, tokens) && trims.has_mask) {
      return false;
    }
    rebuild(attention, tokens, trims);
    return true;
  }

  // A feature that is zero in all queries or in all keys adds nothing to a score.
  static Range common_features(const Value& q, const Value& k) {
    const Range of_queries = unpadded(&q, kFeatures);
    const Range of_keys = unpadded(&k, kFeatures);
    return contains(of_keys, of_queries) ? of_queries : of_keys;
  }

  // Those that the Slices behind the attention leave; all where it has another user.
  Range read_queries(const Node& attention, std::size_t tokens) const {
    Range all{0, attention.output()->shape()[tokens]};
    const bool hangs_on_all = attention.input(4) != nullptr && attention.attr_int("is_causal") != 0;
    if (hangs_on_all || is_graph_output(graph_, attention.output())) return all;
    std::optional<Range> read;
    for (const Node* user : attention.output()->users()) {
      const auto cuts = user->type() == "Slice" ? range_of(*user, tokens) : std::nullopt;
      if (!cuts || (read && !contains(*cuts, *read) && !contains(*read, *cuts))) return all;
      if (!read || contains(*cuts, *read)) read = cuts;
    }
    return read.value_or(all);
  }

  // What a Slice without steps leaves of a dimension; nullopt: all, or it has steps.
  static std::optional<Range> range_of(const Node& slice, std::size_t dim) {
    const auto axes = slice.attr_ints("axes");
    const auto steps = slice.attr_ints("steps");
    if (std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; })) {
      return std::nullopt;
    }
    const auto at = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(dim));
    if (at == axes.end()) return std::nullopt;
    const auto i = static_cast<std::size_t>(at - axes.begin());
    return Range{slice.attr_dims("starts")[i], slice.attr_dims("ends")[i]};
  }

  // Those that the mask opens to the queries that are read.
  static std::optional<OpenKeys> needed_keys(const Node& attention, const Range& queries) {
    const Value* mask = attention.input(3);
    const bool is_for_all =
        mask != nullptr && (mask->rank() < 2 || mask->shape()[mask->rank() - 2].is(1));
    if (is_for_all) return open_keys(attention, 0, 1);
    if (!queries.start.is_constant() || !queries.end.is_constant()) return std::nullopt;
    return open_keys(attention, queries.start.constant(), queries.end.constant());
  }

  void rebuild(Node& attention, std::size_t tokens, const Trims& trims) {
    std::vector<Value*> inputs = attention.inputs();
    inputs[0] = cut(b_, cut(b_, inputs[0], kFeatures, trims.features), tokens, trims.queries);
    inputs[1] = cut(b_, cut(b_, inputs[1], kFeatures, trims.features), tokens, trims.keys);
    inputs[2] = cut(b_, cut(b_, inputs[2], kFeatures, trims.results), tokens, trims.keys);
    if (inputs.size() > 3) inputs[3] = cut_mask(inputs[3], trims);
    while (inputs.back() == nullptr) inputs.pop_back();
    AttributeMap attributes = attention.attributes();
    if (attention.attr_int("is_causal") != 0 && !trims.queries.start.is(0)) {
      const Shape offset = attention.attr_dims("causal_offset");
      attributes["causal_offset"] =
          Shape{(offset.empty() ? Dim(0) : offset[0]) + trims.queries.start};
    }
    Value* attended = b_.op("Attention", std::move(inputs), std::move(attributes));
    Value* y = attended;
    const Value& v = *attention.input(2);
    if (!trims.results.is_whole(v, kFeatures)) {
      y = b_.op("Pad", {y},
                {{"axes", std::vector<std::int64_t>{3}},
                 {"before", Shape{trims.results.start}},
                 {"after", Shape{v.shape()[kFeatures] - trims.results.end}},
                 {"mode", std::string("constant")}});
    }
    if (y == nullptr) return;
    replace(attention, tokens, trims.queries.start, y);
    if (is_graph_output(graph_, y)) return;
    const std::string name = attention.output()->name();
    graph_.rename(attention.output(), "replaced");
    graph_.rename(attended, name);
  }

  Value* cut_mask(Value* mask, const Trims& trims) {
    if (mask == nullptr || !trims.has_mask) return nullptr;
    if (mask->rank() > 0 && !mask->shape().back().is(1)) {
      mask = cut(b_, mask, mask->rank() - 1, trims.keys);
    }
    if (mask->rank() > 1 && !mask->shape()[mask->rank() - 2].is(1)) {
      mask = cut(b_, mask, mask->rank() - 2, trims.queries);
    }
    return mask;
  }

  // Those who cut the results cut less of `y`, whose first query is number `first`.
  void replace(Node& attention, std::size_t tokens, const Dim& first, Value* y) {
    Value* old = attention.output();
    if (is_graph_output(graph_, old)) return replace_value(graph_, old, y);
    const std::vector<Node*> users = old->users();
    for (Node* user : users) {
      const auto axes = user->attr_ints("axes");
      const bool is_cut = user->type() == "Slice" && !axes.empty() &&
                          range_of(*user, static_cast<std::size_t>(axes[0])).has_value();
      if (!is_cut) continue;
      Value* piece = y;
      for (const std::int64_t axis : axes) {
        const auto dim = static_cast<std::size_t>(axis);
        Range range = *range_of(*user, dim);
        if (dim == tokens) range = {range.start - first, range.end - first};
        piece = cut(b_, piece, dim, range);
      }
      graph_.replace_uses(user->output(), piece);
    }
    if (y->shape() == old->shape()) graph_.replace_uses(old, y);
  }

  static constexpr std::size_t kFeatures = 3;

  Graph& graph_;
  GraphBuilder b_;
};

}  // namespace

Status trim_attention(Graph& graph, const CompileOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const bool changed, AttentionTrimmer(graph, options).run());
  return changed ? simplify(graph, options) : Status();
}

}  // namespace tutti
