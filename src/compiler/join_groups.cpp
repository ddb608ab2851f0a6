// Attention within groups of a sequence's tokens (each frame of a video asks about its own faces)
// whose keys stay the same from call to call. Its operands have the groups as their batch, and
// pieces of the sequence are pieces of that batch only where cuts fall between groups. Elsewhere
// queries and results would travel, although every rank has all keys. So the groups become one
// sequence behind a mask that opens to each token the keys of its group.
#include <cstring>
#include <map>

#include "compiler/attention_tokens.h"
#include "compiler/cost.h"
#include "compiler/hoist.h"
#include "compiler/match.h"
#include "compiler/passes.h"
#include "compiler/strategy.h"
#include "compiler/token_groups.h"

namespace tutti {
namespace {

class GroupJoiner {
 public:
  GroupJoiner(Graph& graph, const CompileOptions& options, int axis)
      : graph_(graph),
        rates_(options.rates),
        ranks_(options.mesh.size(axis)),
        sizes_(typical_sizes(graph, options)),
        varying_(varying_values(graph, options.invariant_inputs)),
        builder_(&graph, options.registry, options.evaluator) {}

  Result<bool> run() {
    bool changed = false;
    for (Node* attention : attentions_of(graph_)) {
      const auto groups = token_groups(*attention);
      if (!groups || groups->are_pieces(ranks_) || !has_steady_keys(*attention)) continue;
      if (is_masked(*attention) || !is_worth_it(*attention, *groups)) continue;
      join(*attention, *groups);
      TUTTI_RETURN_IF_ERROR(builder_.take_status());
      changed = true;
    }
    if (changed) graph_.remove_dead();
    return changed;
  }

 private:
  bool has_steady_keys(const Node& attention) const {
    return !varying_.contains(attention.input(1)) && !varying_.contains(attention.input(2)) &&
           attention.input(1)->shape()[1].is_constant();
  }

  static bool is_masked(const Node& attention) {
    return attention.attr_int("is_causal") != 0 || attention.input(3) != nullptr ||
           attention.input(4) != nullptr;
  }

  // Whether scores that the mask closes again cost less than taking heads for tokens and back.
  bool is_worth_it(const Node& attention, const TokenGroups& groups) const {
    const double ranks = ranks_;
    const auto bytes_of = [&](const Value& value) {
      return sizes_(product(value.shape())) * static_cast<double>(dtype_size(value.dtype()));
    };
    const double moved = bytes_of(*attention.input(0)) + bytes_of(*attention.output());
    const double exchange = moved * (ranks - 1) / (ranks * ranks) / rates_.bytes_per_second +
                            2 * rates_.seconds_per_exchange;
    const double flops = sizes_(node_flops(attention)) * static_cast<double>(groups.count - 1);
    const double mask = static_cast<double>(groups.tokens()) * static_cast<double>(groups.count) *
                        sizes_(attention.input(1)->shape()[1]);
    return flops / ranks / rates_.flops_per_second + mask / ranks / rates_.memory_bytes_per_second <
           exchange;
  }

  void join(Node& attention, const TokenGroups& groups) {
    builder_.set_insertion_point(&attention);
    builder_.set_name(attention.name());
    std::vector<Value*> inputs = attention.inputs();
    inputs.resize(3);
    const std::int64_t keys = inputs[1]->shape()[1].constant();
    for (Value*& operand : inputs) {
      Shape shape = operand->shape();
      shape[0] = groups.batch;
      shape[1] = shape[1] * Dim(groups.count);
      operand = builder_.reshape(operand, std::move(shape));
    }
    inputs.push_back(mask_of(groups, keys));
    Value* joined = builder_.op("Attention", std::move(inputs), attention.attributes());
    Value* apart = builder_.reshape(joined, attention.output()->shape());
    if (apart == nullptr) return;
    Value* old = attention.output();
    if (is_graph_output(graph_, old)) return replace_value(graph_, old, apart);
    const std::string name = old->name();
    graph_.replace_uses(old, apart);
    graph_.rename(old, "replaced");
    graph_.rename(joined, name);
  }

  // [tokens, keys of all groups].
  Value* mask_of(const TokenGroups& groups, std::int64_t keys) {
    Value*& mask = masks_[{groups.count, groups.size, keys}];
    if (mask != nullptr) return mask;
    auto allocated = Tensor::allocate(DType::kBool, {groups.tokens(), groups.count * keys});
    if (!allocated.ok()) {
      builder_.fail(allocated.status());
      return nullptr;
    }
    Tensor open = *std::move(allocated);
    std::byte* row = open.mutable_data();
    std::memset(row, 0, open.byte_size());
    for (std::int64_t token = 0; token < groups.tokens(); ++token) {
      std::memset(row + token / groups.size * keys, 1, static_cast<std::size_t>(keys));
      row += groups.count * keys;
    }
    return mask = builder_.constant(std::move(open), "groups");
  }

  Graph& graph_;
  const CostRates& rates_;
  const int ranks_;
  const SizeEstimate sizes_;
  const std::set<const Value*> varying_;
  GraphBuilder builder_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Value*> masks_;
};

}  // namespace

Status join_groups(Graph& graph, const CompileOptions& options, int axis) {
  TUTTI_ASSIGN_OR_RETURN(const bool changed, GroupJoiner(graph, options, axis).run());
  return changed ? simplify(graph, options) : Status();
}

}  // namespace tutti
