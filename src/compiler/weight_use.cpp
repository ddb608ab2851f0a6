#include "compiler/weight_use.h"

#include <algorithm>

#include "graph/op_def.h"

namespace tutti {
namespace {

bool holds(const DimFactors& operand, int factor) {
  return std::any_of(operand.begin(), operand.end(), [factor](const std::vector<int>& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

std::optional<WeightUse> with_operands(const FactorMap& map, std::size_t weight, std::size_t data) {
  WeightUse use;
  use.weight = weight;
  use.data = data;
  for (int factor = 0; factor < static_cast<int>(map.factors.size()); ++factor) {
    const Factor& f = map.factors[static_cast<std::size_t>(factor)];
    if (f.size.is(1) || !holds(map.inputs[weight], factor)) continue;
    const bool in_data = holds(map.inputs[data], factor);
    if (f.role == FactorRole::kParallel && !in_data && holds(map.outputs[0], factor)) {
      use.feature = factor;
    }
    if (f.role == FactorRole::kReduction && in_data) use.sum = factor;
  }
  if (use.feature < 0) return std::nullopt;
  return use;
}

}  // namespace

std::optional<WeightUse> weight_use(const Node& node, const FactorMap& map) {
  if (node.op().is_pointwise || node.outputs().size() != 1) return std::nullopt;
  const Value* first = node.input(0);
  const Value* second = node.input(1);
  if (first == nullptr || second == nullptr) return std::nullopt;
  if (second->is_constant() && second->rank() > 1 && !first->is_constant()) {
    return with_operands(map, 1, 0);
  }
  if (first->is_constant() && first->rank() > 1 && !second->is_constant()) {
    return with_operands(map, 0, 1);
  }
  return std::nullopt;
}

}  // namespace tutti
