#include <algorithm>

#include "compiler/sharding.h"
#include "graph/op_def.h"

namespace tutti {
namespace {

const Factor& factor(const FactorMap& map, int index) {
  return map.factors[static_cast<std::size_t>(index)];
}

Dim size_of(const FactorMap& map, const std::vector<int>& factors) {
  Dim size = 1;
  for (const int index : factors) size = size * factor(map, index).size;
  return size;
}

bool contains(const std::vector<int>& list, int index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

// How many of `factors`, from the first on, lead this dimension.
std::size_t leading(const std::vector<int>& dim, const std::vector<int>& factors) {
  std::size_t count = 0;
  while (count < dim.size() && count < factors.size() && dim[count] == factors[count]) ++count;
  return count;
}

// Every dimension that holds some of the factors starts with them, major ones first.
bool stand_in_front(const DimFactors& operand, const std::vector<int>& factors) {
  int dims = 0;
  for (const std::vector<int>& dim : operand) {
    const auto held =
        std::count_if(dim.begin(), dim.end(), [&](int index) { return contains(factors, index); });
    if (held == 0) continue;
    if (++dims > 1 || leading(dim, factors) != static_cast<std::size_t>(held)) return false;
  }
  return true;
}

bool holds_all(const DimFactors& operand, const std::vector<int>& factors) {
  return std::any_of(operand.begin(), operand.end(), [&](const std::vector<int>& dim) {
    return leading(dim, factors) == factors.size();
  });
}

bool holds_any(const DimFactors& operand, const std::vector<int>& factors) {
  for (const std::vector<int>& dim : operand) {
    for (const int index : dim) {
      if (contains(factors, index)) return true;
    }
  }
  return false;
}

bool shares_a_dimension(const DimFactors& operand, const FactorSplit& a, const FactorSplit& b) {
  for (const std::vector<int>& dim : operand) {
    if (leading(dim, a.factors) > 0 && leading(dim, b.factors) > 0) return true;
    // The second axis would split a dimension whose major part the first has cut.
    const bool has_a =
        std::any_of(dim.begin(), dim.end(), [&](int i) { return contains(a.factors, i); });
    const bool has_b =
        std::any_of(dim.begin(), dim.end(), [&](int i) { return contains(b.factors, i); });
    if (has_a && has_b) return true;
  }
  return false;
}

}  // namespace

FactorMap factors_of(const Node& node) {
  if (node.op().factors != nullptr) return node.op().factors(node);
  FactorMap map;
  const auto add_whole = [&map](const Value* value) {
    DimFactors row;
    if (value != nullptr) {
      for (std::size_t d = 0; d < value->rank(); ++d) {
        row.push_back({map.add("w", value->shape()[d], FactorRole::kWhole)});
      }
    }
    return row;
  };
  for (const Value* input : node.inputs()) map.inputs.push_back(add_whole(input));
  for (const Value* output : node.outputs()) map.outputs.push_back(add_whole(output));
  return map;
}

std::optional<FactorSplit> factor_split_from(const FactorMap& map, const DimFactors& operand,
                                             const Split& split, int ranks) {
  FactorSplit found;
  Dim prefix = 1;
  for (const int index : operand[static_cast<std::size_t>(split.dim)]) {
    const Dim& size = factor(map, index).size;
    if (size.is(1)) continue;
    found.factors.push_back(index);
    prefix = prefix * size;
    // Cuts fall on whole units of this prefix, or between them in equal parts.
    if (prefix == split.units || exact_div(prefix, split.units)) {
      found.units = split.units;
      found.replicas = split.replicas;
      return found;
    }
    const Dim n(ranks);
    if (split.replicas == 1 && exact_div(split.units, n) && exact_div(prefix, n)) {
      found.units = prefix;  // equal pieces, however many units they are
      return found;
    }
    if (!exact_div(split.units, prefix)) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Split> split_under(const FactorMap& map, const DimFactors& operand,
                                 const FactorSplit& split, int axis) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const std::size_t count = leading(operand[d], split.factors);
    if (count == 0) continue;
    Split out;
    out.dim = static_cast<int>(d);
    out.axis = axis;
    out.units = split.units;
    out.replicas = split.replicas;
    if (count < split.factors.size()) {
      const Dim held = size_of(
          map, {split.factors.begin(), split.factors.begin() + static_cast<std::ptrdiff_t>(count)});
      if (!exact_div(held, split.units)) {
        const auto replicas = exact_div(split.units, held);
        if (!replicas || !replicas->is_constant()) return std::nullopt;
        out.units = held;
        out.replicas = static_cast<int>(replicas->constant()) * split.replicas;
      }
    }
    return out;
  }
  return std::nullopt;
}

bool is_reduction(const FactorMap& map, const FactorSplit& split) {
  return factor(map, split.factors[0]).role == FactorRole::kReduction;
}

bool is_possible(const FactorMap& map, const FactorSplit& split, const NodeSharding& taken) {
  for (const int index : split.factors) {
    const FactorRole role = factor(map, index).role;
    if (role == FactorRole::kWhole) return false;
    if (role == FactorRole::kReduction && (split.factors.size() > 1 || split.replicas > 1)) {
      return false;
    }
  }
  for (const DimFactors& operand : map.inputs) {
    if (!stand_in_front(operand, split.factors)) return false;
    if (holds_any(operand, split.factors) && !split_under(map, operand, split, 0)) return false;
  }
  for (const DimFactors& operand : map.outputs) {
    if (!stand_in_front(operand, split.factors)) return false;
    // An output without the factor would be a different thing on each rank.
    if (!is_reduction(map, split) && !holds_all(operand, split.factors)) return false;
    if (is_reduction(map, split) && holds_any(operand, split.factors)) return false;
  }
  for (const auto& [axis, other] : taken) {
    for (const auto* operands : {&map.inputs, &map.outputs}) {
      for (const DimFactors& operand : *operands) {
        if (shares_a_dimension(operand, split, other)) return false;
      }
    }
    if (other.factors == split.factors) return false;
  }
  return true;
}

std::vector<FactorSplit> possible_splits(const FactorMap& map, const NodeSharding& taken,
                                         int ranks) {
  std::vector<FactorSplit> splits;
  const auto consider = [&](FactorSplit split) {
    if (is_possible(map, split, taken)) splits.push_back(std::move(split));
  };
  for (int index = 0; index < static_cast<int>(map.factors.size()); ++index) {
    const Factor& first = factor(map, index);
    if (first.role == FactorRole::kWhole || first.size.is(1) || first.size.is(0)) continue;
    consider({{index}, first.size, 1});
    if (!first.size.is_constant()) continue;
    // More units than the first factor has: split what follows it in some operand, too.
    std::vector<int> seconds;
    for (const auto* operands : {&map.inputs, &map.outputs}) {
      for (const DimFactors& operand : *operands) {
        for (const std::vector<int>& dim : operand) {
          if (dim.size() == 2 && dim[0] == index && !contains(seconds, dim[1])) {
            seconds.push_back(dim[1]);
          }
        }
      }
    }
    for (const int second : seconds) {
      const Dim& size = factor(map, second).size;
      if (!size.is_constant()) continue;
      for (std::int64_t c = 2; c <= size.constant(); ++c) {
        if (size.constant() % c != 0) continue;
        consider({{index, second}, first.size * Dim(c), 1});
        if (first.size.constant() * c >= ranks) break;  // finer only makes more copies
      }
    }
  }
  return splits;
}

namespace {

Layout layout_under(const FactorMap& map, const DimFactors& operand, const NodeSharding& sharding) {
  Layout layout;
  for (const auto& [axis, split] : sharding) {
    if (const auto dim = split_under(map, operand, split, axis)) layout.set(*dim);
  }
  return layout;
}

}  // namespace

Layout input_layout(const FactorMap& map, std::size_t input, const NodeSharding& sharding) {
  return layout_under(map, map.inputs[input], sharding);
}

Layout output_layout(const FactorMap& map, std::size_t output, const NodeSharding& sharding) {
  Layout layout = layout_under(map, map.outputs[output], sharding);
  for (const auto& [axis, split] : sharding) {
    if (is_reduction(map, split)) layout.partial_axes.push_back(axis);
  }
  return layout;
}

}  // namespace tutti
