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

std::vector<Dim> grains_of(const std::vector<Dim>& segments, const std::vector<Dim>& grains) {
  return grains.empty() ? std::vector<Dim>(segments.size(), Dim(1)) : grains;
}

// The split of a sum that gives its part number `index` this split: other parts are cut by
// themselves.
std::optional<FactorSplit> split_of_sum(const FactorMap& map, const FactorSum& sum, int part,
                                        const Split& split, int ranks) {
  const Dim& size = factor(map, part).size;
  const Dim n(ranks);
  const bool is_even = exact_div(split.units, n) && exact_div(size, n);
  const auto grain = is_even ? Dim(1) : exact_div(size, split.units);
  if (split.replicas != 1 || !grain) return std::nullopt;
  FactorSplit found;
  found.factors = {sum.whole};
  found.units = factor(map, sum.whole).size;
  for (const int other : sum.parts) {
    if (other == part && !split.segments.empty()) {
      found.segments.insert(found.segments.end(), split.segments.begin(), split.segments.end());
      const std::vector<Dim> grains = grains_of(split.segments, split.grains);
      found.grains.insert(found.grains.end(), grains.begin(), grains.end());
    } else {
      found.segments.push_back(factor(map, other).size);
      found.grains.push_back(other == part ? *grain : Dim(1));
    }
  }
  drop_single_grains(&found.grains);
  return found;
}

// A dimension in segments: the whole of a sum with those parts, or one factor that is cut alike.
std::optional<FactorSplit> split_in_segments(const FactorMap& map, const std::vector<int>& dim,
                                             const Split& split) {
  if (dim.empty() || factor(map, dim[0]).size != split.units) return std::nullopt;
  FactorSplit found;
  found.factors = {dim[0]};
  found.units = split.units;
  found.segments = split.segments;
  found.grains = split.grains;
  return found;
}

// How an operand is split when the parts of a sum are.
std::optional<Split> part_split(const FactorMap& map, const FactorSum& sum,
                                const DimFactors& operand, const FactorSplit& split, int axis) {
  const auto runs = runs_of_parts(map, sum, split);
  if (!runs) return std::nullopt;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (operand[d].empty()) continue;
    Split out;
    out.dim = static_cast<int>(d);
    out.axis = axis;
    if (operand[d][0] == sum.whole) {
      out.units = split.units;
      out.segments = split.segments;
      out.grains = split.grains;
      return out;
    }
    const auto part = std::find(sum.parts.begin(), sum.parts.end(), operand[d][0]);
    if (part == sum.parts.end()) continue;
    const SegmentRun& run = (*runs)[static_cast<std::size_t>(part - sum.parts.begin())];
    out.units = factor(map, *part).size;
    if (run.segments.size() > 1) {
      out.segments = run.segments;
      out.grains = run.grains;
      drop_single_grains(&out.grains);
    } else {
      out.units = floor_div(out.units, run.grains[0]);
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::vector<Dim>>> segments_of_parts(const FactorMap& map,
                                                               const FactorSum& sum,
                                                               const std::vector<Dim>& segments) {
  std::vector<std::vector<Dim>> runs;
  std::size_t next = 0;
  for (const int part : sum.parts) {
    std::vector<Dim>& run = runs.emplace_back();
    Dim covered = 0;
    while (covered != factor(map, part).size) {
      if (next == segments.size()) return std::nullopt;
      covered = covered + segments[next];
      run.push_back(segments[next++]);
    }
  }
  if (next != segments.size()) return std::nullopt;
  return runs;
}

void drop_single_grains(std::vector<Dim>* grains) {
  const auto is_one = [](const Dim& grain) { return grain.is(1); };
  if (std::all_of(grains->begin(), grains->end(), is_one)) grains->clear();
}

std::optional<std::vector<SegmentRun>> runs_of_parts(const FactorMap& map, const FactorSum& sum,
                                                     const FactorSplit& split) {
  const auto parts = segments_of_parts(map, sum, split.segments);
  if (!parts) return std::nullopt;
  const std::vector<Dim> grains = grains_of(split.segments, split.grains);
  std::vector<SegmentRun> runs;
  auto next = grains.begin();
  for (const std::vector<Dim>& part : *parts) {
    const auto end = next + static_cast<std::ptrdiff_t>(part.size());
    runs.push_back({part, {next, end}});
    next = end;
  }
  return runs;
}

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
  const std::vector<int>& dim = operand[static_cast<std::size_t>(split.dim)];
  const FactorSum* sum = dim.size() == 1 ? map.sum_with(dim[0]) : nullptr;
  if (sum != nullptr) return split_of_sum(map, *sum, dim[0], split, ranks);
  if (!split.segments.empty()) return split_in_segments(map, dim, split);
  // Rows that windows read come from any rank, so the result's are shared out evenly, one by one.
  if (const FactorWindow* window = map.window_of(dim)) {
    return FactorSplit{{window->output}, factor(map, window->output).size, 1};
  }
  FactorSplit found;
  Dim prefix = 1;
  for (const int index : dim) {
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
  if (const FactorSum* sum = map.sum_of(split.factors[0])) {
    return part_split(map, *sum, operand, split, axis);
  }
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const FactorWindow* window = map.window_of(operand[d]);
    if (window != nullptr && window->output == split.factors[0]) {
      const Dim& rows = factor(map, window->output).size;
      const Dim& size = factor(map, window->input).size;
      return Split{static_cast<int>(d),
                   axis,
                   split.units,
                   split.replicas,
                   {},
                   {},
                   SplitWindow{rows, size, window->map}};
    }
    const std::size_t count = leading(operand[d], split.factors);
    if (count == 0) continue;
    Split out;
    out.dim = static_cast<int>(d);
    out.axis = axis;
    out.units = split.units;
    out.replicas = split.replicas;
    out.segments = split.segments;
    out.grains = split.grains;
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

Split without_window(const Split& split) {
  return split.window ? Split{split.dim, split.axis, split.window->size, 1} : split;
}

bool is_reduction(const FactorMap& map, const FactorSplit& split) {
  return factor(map, split.factors[0]).role == FactorRole::kReduction;
}

namespace {

// The factor fills every dimension that holds it: segments of the factor are segments of those.
bool stands_alone(const FactorMap& map, int index) {
  for (const auto* operands : {&map.inputs, &map.outputs}) {
    for (const DimFactors& operand : *operands) {
      for (const std::vector<int>& dim : operand) {
        if (contains(dim, index) && size_of(map, dim) != factor(map, index).size) return false;
      }
    }
  }
  return true;
}

}  // namespace

bool is_possible(const FactorMap& map, const FactorSplit& split) {
  if (const FactorSum* sum = map.sum_of(split.factors[0])) {
    return segments_of_parts(map, *sum, split.segments).has_value();
  }
  if (!split.segments.empty() && !stands_alone(map, split.factors[0])) return false;
  for (const int index : split.factors) {
    const FactorRole role = factor(map, index).role;
    if (role == FactorRole::kWhole) return false;
    const bool is_single = role == FactorRole::kReduction || role == FactorRole::kWindow;
    if (is_single && (split.factors.size() > 1 || split.replicas > 1)) return false;
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
  return true;
}

bool is_possible_for(const Node& node, const FactorMap& map, const FactorSplit& split, int ranks) {
  if (!is_possible(map, split)) return false;
  if (node.attr_int("group", 1) == 1 || split.factors[0] != map.outputs[0][1][0]) return true;
  if (split.replicas != 1) return false;
  const std::vector<Dim> runs =
      split.segments.empty() ? std::vector<Dim>{split.units} : split.segments;
  const std::vector<Dim> grains = grains_of(runs, split.grains);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!exact_div(runs[i], grains[i] * Dim(ranks))) return false;
  }
  return true;
}

std::vector<FactorSplit> possible_splits(const FactorMap& map, int ranks) {
  std::vector<FactorSplit> splits;
  const auto consider = [&](FactorSplit split) {
    if (is_possible(map, split)) splits.push_back(std::move(split));
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

Layout layout_under(const FactorMap& map, const DimFactors& operand, const FactorSplit* split,
                    int axis) {
  Layout layout;
  if (split == nullptr) return layout;
  if (const auto dim = split_under(map, operand, *split, axis)) layout.set(*dim);
  return layout;
}

}  // namespace

Layout input_layout(const FactorMap& map, std::size_t input, const FactorSplit* split, int axis) {
  return layout_under(map, map.inputs[input], split, axis);
}

Layout output_layout(const FactorMap& map, std::size_t output, const FactorSplit* split, int axis) {
  Layout layout = layout_under(map, map.outputs[output], split, axis);
  if (split != nullptr && is_reduction(map, *split)) layout.partial_axes.push_back(axis);
  return layout;
}

}  // namespace tutti
