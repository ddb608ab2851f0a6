#include "compiler/feature_sources.h"

#include <algorithm>

#include "compiler/sharding.h"
#include "compiler/strategy.h"
#include "compiler/weight_use.h"

namespace tutti {

// The factor that a dimension starts with; -1: it has size 1 or broadcasts.
int leading_factor(const FactorMap& map, const std::vector<int>& dim) {
  for (const int factor : dim) {
    if (!map.factors[static_cast<std::size_t>(factor)].size.is(1)) return factor;
  }
  return -1;
}

int dimension_of(const FactorMap& map, const DimFactors& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (leading_factor(map, operand[d]) == factor) return static_cast<int>(d);
  }
  return -1;
}

namespace {

class SourceFinder {
 public:
  FeatureSources find(const Place& at) {
    visit(at, size_of(at), {});
    return std::move(found_);
  }

 private:
  static Dim size_of(const Place& at) {
    return at.first->shape()[static_cast<std::size_t>(at.second)];
  }

  static bool is_cut(const Node& node, int dim) {
    return node.type() == "Split" && node.attr_int("axis") == dim;
  }

  // The major part of a dimension that is fused of parts is what can be cut.
  static Dim fewer(const Dim& units, const Dim& size) {
    return exact_div(units, size) ? size : units;
  }

  void visit(const Place& at, Dim units, const std::vector<Dim>& parts) {
    const auto& [value, dim] = at;
    if (value->is_constant() || !seen_.insert(at).second) return;
    const Node* node = value->producer();
    if (node == nullptr) {
      found_.has_others = true;
      return;
    }
    if (node->type() == "Attention" && dim == 3 - token_dimension(*node)) {
      found_.attentions.push_back(node);
      return;
    }
    const FactorMap map = factors_of(*node);
    const auto output = static_cast<std::size_t>(value->producer_output());
    const int factor = leading_factor(map, map.outputs[output][static_cast<std::size_t>(dim)]);
    const auto weight = weight_use(*node, map);
    if (weight && weight->feature == factor) {
      found_.products.push_back(node);
      found_.units.push_back(fewer(size_of(at), units));
      found_.parts.push_back(parts);
      return;
    }
    if (is_cut(*node, dim) && parts.empty()) {
      const Place whole{node->input(0), dim};
      return visit(whole, size_of(whole), node->attr_dims("sizes"));
    }
    if (const FactorSum* sum = map.sum_of(factor);
        sum != nullptr && node->type() == "Concat" && parts.empty()) {
      // Pieces of a concatenation are pieces of all that is concatenated.
      for (const Value* input : node->inputs()) visit({input, dim}, size_of({input, dim}), {});
      return;
    }
    const bool is_whole =
        factor < 0 || map.factors[static_cast<std::size_t>(factor)].role == FactorRole::kWhole;
    const bool is_norm = node->type() == "RMSNormalization" || node->type() == "LayerNormalization";
    if (is_whole && is_norm && node->attr_int("axis") == dim) {
      found_.norms.push_back(node);
      return;
    }
    if (factor >= 0) units = fewer(units, map.factors[static_cast<std::size_t>(factor)].size);
    int operands = 0;
    for (std::size_t i = 0; !is_whole && i < node->inputs().size(); ++i) {
      if (node->input(i) == nullptr) continue;
      const int held = dimension_of(map, map.inputs[i], factor);
      if (held < 0) continue;
      ++operands;
      visit({node->input(i), held}, units, parts);
    }
    found_.has_others |= operands == 0;
    found_.meets_in_heads |= operands > 1 && node->type() == "MatMul";
  }

  std::set<Place> seen_;
  FeatureSources found_;
};

bool is_sum(const FactorMap& map, int factor) {
  return map.factors[static_cast<std::size_t>(factor)].role == FactorRole::kReduction;
}

}  // namespace

FeatureSources feature_sources(const Place& at) { return SourceFinder().find(at); }

bool SumFinder::feeds_only_sums(const Place& at) {
  const auto [known, is_new] = known_.emplace(at, true);
  if (!is_new) return known->second;
  const auto& [value, dim] = at;
  const bool does =
      !outputs_.contains(value) && std::all_of(value->users().begin(), value->users().end(),
                                               [&](const Node* user) { return is_fed(*user, at); });
  return known_[at] = does;
}

bool SumFinder::is_fed(const Node& user, const Place& at) {
  const FactorMap map = factors_of(user);
  const auto weight = weight_use(user, map);
  for (std::size_t i = 0; i < user.inputs().size(); ++i) {
    if (user.input(i) != at.first) continue;
    const int factor = leading_factor(map, map.inputs[i][static_cast<std::size_t>(at.second)]);
    if (factor < 0) return false;
    if (weight && weight->sum == factor) continue;
    if (user.type() == "Reduce" && is_sum(map, factor)) continue;  // a number for all features
    const bool joins = user.type() == "Concat" && map.sum_with(factor) != nullptr;
    if (joins || (user.type() == "Split" && map.sum_of(factor) != nullptr)) {
      for (const Value* output : user.outputs()) {
        if (!feeds_only_sums({output, at.second})) return false;
      }
      continue;
    }
    if (map.factors[static_cast<std::size_t>(factor)].role != FactorRole::kParallel) return false;
    for (std::size_t o = 0; o < user.outputs().size(); ++o) {
      const int held = dimension_of(map, map.outputs[o], factor);
      if (held < 0 || !feeds_only_sums({user.output(o), held})) return false;
    }
  }
  return true;
}

}  // namespace tutti
