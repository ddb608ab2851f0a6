#include <algorithm>

#include "compiler/cost.h"
#include "compiler/layout.h"

namespace tutti {
namespace {

// The rank's first query says where all of them stand: they must be neighbours.
bool tears_causal_queries(const Node& node, const FactorMap& map, const FactorSplit& split) {
  return !split.segments.empty() && node.type() == "Attention" && node.attr_int("is_causal") != 0 &&
         split.factors == map.inputs[0][static_cast<std::size_t>(token_dimension(node))];
}

// `split` and `other` cut the parts of one sum. A part that one of them cuts in segments or in
// larger grains is cut so.
void refine(const FactorMap& map, const FactorSplit& other, FactorSplit* split) {
  const FactorSum& sum = *map.sum_of(split->factors[0]);
  if (other.factors != split->factors || other.units != split->units) return;
  const auto runs = runs_of_parts(map, sum, *split);
  const auto other_runs = runs_of_parts(map, sum, other);
  if (!runs || !other_runs) return;
  split->segments.clear();
  split->grains.clear();
  for (std::size_t part = 0; part < runs->size(); ++part) {
    const SegmentRun& own = (*runs)[part];
    const bool is_plain = own.segments.size() == 1 && own.grains[0].is(1);
    const SegmentRun& run = is_plain ? (*other_runs)[part] : own;
    split->segments.insert(split->segments.end(), run.segments.begin(), run.segments.end());
    split->grains.insert(split->grains.end(), run.grains.begin(), run.grains.end());
  }
  drop_single_grains(&split->grains);
}

}  // namespace

std::optional<FactorSplit> split_from_labels(const Node& node, const FactorMap& map,
                                             const Labels& labels, int ranks) {
  std::optional<FactorSplit> concatenation;
  std::optional<FactorSplit> reduction;
  const auto from_operands =
      [&](const std::vector<Value*>& values,
          const std::vector<DimFactors>& rows) -> std::optional<FactorSplit> {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto label = values[i] == nullptr ? labels.end() : labels.find(values[i]);
      if (label == labels.end()) continue;
      auto split = factor_split_from(map, rows[i], label->second, ranks);
      if (!split || !is_possible_for(node, map, *split, ranks)) continue;
      if (tears_causal_queries(node, map, *split)) continue;
      if (map.sum_of(split->factors[0]) != nullptr) {
        if (!concatenation) {
          concatenation = std::move(split);
        } else {
          refine(map, *split, &*concatenation);
        }
      } else if (!is_reduction(map, *split)) {
        return split;
      } else if (!reduction) {
        reduction = std::move(split);
      }
    }
    return std::nullopt;
  };
  if (auto split = from_operands(node.inputs(), map.inputs)) return split;
  if (auto split = from_operands(node.outputs(), map.outputs)) return split;
  return concatenation ? concatenation : reduction;
}

namespace {

class LabelSpread {
 public:
  LabelSpread(const Graph& graph, const Mesh& mesh, int axis, const FactorMaps& maps,
              const AxisSeeds& seeds)
      : mesh_(mesh), axis_(axis), maps_(maps), whole_(seeds.whole) {
    for (const auto& node : graph.nodes()) nodes_.push_back(node.get());
    graph_outputs_.insert(graph.outputs().begin(), graph.outputs().end());
    for (const Node* node : nodes_) {
      const bool has_work =
          is_real_work(*node) ||
          std::any_of(node->inputs().begin(), node->inputs().end(),
                      [&](const Value* v) { return has_work_behind_.contains(v); });
      if (has_work) has_work_behind_.insert(node->outputs().begin(), node->outputs().end());
    }
    for (const Node* node : seeds.prefer_heads) {
      if (has_heads_for_all(*node)) keep_whole(node->input(kMask));
    }
    for (const auto& [value, split] : seeds.labels) add_label(value, split);
    late_ = seeds.late_labels;
  }

  Labels run() {
    spread();
    for (const auto& [value, split] : late_) add_label(value, split);
    spread();
    guesses_ = true;
    spread();
    return std::move(labels_);
  }

 private:
  void spread() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (const Node* node : nodes_) changed |= forward(*node);
      for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) changed |= backward(**it);
    }
  }

  // A Slice or Split of something without a label: that of a part does not say how the others are
  // cut. Only where nothing else does they count as one segment each.
  bool is_guess(const Node& node) const {
    const bool cuts = node.type() == "Slice" || node.type() == "Split";
    return cuts && !labels_.contains(node.input(0));
  }

  // The first label stays.
  bool add_label(const Value* value, const Split& split) {
    return labels_.emplace(value, split).second;
  }

  const FactorSplit* follow(const Node& node) {
    const auto it = follows_.find(&node);
    if (it != follows_.end()) return &it->second;
    if (whole_.contains(&node) || (!guesses_ && is_guess(node))) return nullptr;
    auto split = split_from_labels(node, maps_.at(&node), labels_, mesh_.size(axis_));
    if (!split) return nullptr;
    return &follows_.emplace(&node, std::move(*split)).first->second;
  }

  bool forward(const Node& node) {
    const FactorSplit* split = follow(node);
    const FactorMap& map = maps_.at(&node);
    if (split == nullptr || is_reduction(map, *split)) return false;
    bool changed = false;
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      const auto label = split_under(map, map.outputs[i], *split, axis_);
      if (label) changed |= add_label(node.output(i), *label);
    }
    return changed;
  }

  bool backward(const Node& node) {
    const FactorSplit* split = follow(node);
    if (split == nullptr) return false;
    const FactorMap& map = maps_.at(&node);
    bool changed = false;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value* input = node.input(i);
      // Inputs and constants are whole on every rank: a piece of them costs nothing anyway.
      if (input == nullptr || input->producer() == nullptr || labels_.contains(input)) continue;
      if (whole_masks_.contains(input)) continue;
      auto label = split_under(map, map.inputs[i], *split, axis_);
      if (label && label->window) {
        if (!has_work_behind_.contains(input)) continue;
        label = without_window(*label);
      }
      if (label && all_users_follow(*input, *label)) changed |= add_label(input, *label);
    }
    return changed;
  }

  // What costs nothing to make on the way to a mask.
  void keep_whole(const Value* value) {
    if (value == nullptr || value->producer() == nullptr || has_work_behind_.contains(value))
      return;
    if (!whole_masks_.insert(value).second) return;
    for (const Value* input : value->producer()->inputs()) keep_whole(input);
  }

  bool has_heads_for_all(const Node& attention) const {
    const FactorMap& map = maps_.at(&attention);
    const int ranks = mesh_.size(axis_);
    const std::vector<FactorSplit> splits = possible_splits(map, ranks);
    return std::any_of(splits.begin(), splits.end(), [&](const FactorSplit& split) {
      return splits_heads(attention, map, split, ranks);
    });
  }

  // A value that every rank could compute whole gets a label only where nobody needs it whole.
  bool all_users_follow(const Value& value, const Split& label) {
    if (graph_outputs_.contains(&value)) return false;
    return std::all_of(value.users().begin(), value.users().end(), [&](const Node* user) {
      if (whole_.contains(user)) return false;
      const FactorMap& map = maps_.at(user);
      const auto decided = follows_.find(user);
      for (std::size_t i = 0; i < user->inputs().size(); ++i) {
        if (user->input(i) != &value) continue;
        if (decided != follows_.end()) {
          const auto needed = split_under(map, map.inputs[i], decided->second, axis_);
          // Windows read pieces in any units.
          if (!needed || (!needed->window && !(*needed == label))) return false;
          continue;
        }
        const auto split = factor_split_from(map, map.inputs[i], label, mesh_.size(axis_));
        if (!split || !is_possible_for(*user, map, *split, mesh_.size(axis_))) return false;
      }
      return true;
    });
  }

  static constexpr std::size_t kMask = 3;  // operand of an Attention

  const Mesh& mesh_;
  const int axis_;
  const FactorMaps& maps_;
  const std::set<const Node*>& whole_;
  std::vector<const Node*> nodes_;
  // Masks of attentions that will get whole tokens, whatever their queries' labels say: those that
  // cost little to make are made whole, also for attentions that need a piece of the same mask.
  std::set<const Value*> whole_masks_;
  std::set<const Value*> graph_outputs_;
  // What cost something to make. The rest is made whole on every rank rather than exchanged for
  // what windows read of it.
  std::set<const Value*> has_work_behind_;
  bool guesses_ = false;
  std::vector<std::pair<const Value*, Split>> late_;
  Labels labels_;
  std::map<const Node*, FactorSplit> follows_;
};

}  // namespace

Labels spread_labels(const Graph& graph, const Mesh& mesh, int axis, const FactorMaps& maps,
                     const AxisSeeds& seeds) {
  return LabelSpread(graph, mesh, axis, maps, seeds).run();
}

}  // namespace tutti
