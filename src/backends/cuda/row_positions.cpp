#include "backends/cuda/row_positions.h"

#include <functional>

namespace tutti::cuda {
namespace {

Dims without_lead(const Dims& dims, std::size_t lead) {
  return Dims(dims.begin() + static_cast<std::ptrdiff_t>(lead), dims.end());
}

Dims coordinates(std::int64_t position, const Dims& dims) {
  Dims at(dims.size(), 0);
  for (std::size_t d = dims.size(); d-- > 0;) {
    at[d] = position % dims[d];
    position /= dims[d];
  }
  return at;
}

std::int64_t flat(const Dims& at, const Dims& dims) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) position = position * dims[d] + at[d];
  return position;
}

// Every place by coordinates: `move` turns those of the result into those of the operand.
Positions mapped(const Positions& wanted, const Dims& result, const Dims& operand,
                 const std::function<Dims(const Dims&)>& move) {
  Positions positions(wanted.size(), -1);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= 0) positions[i] = flat(move(coordinates(wanted[i], result)), operand);
  }
  return positions;
}

Result<std::size_t> inner_axis(std::int64_t axis, std::size_t lead) {
  if (axis < static_cast<std::int64_t>(lead)) return unimplemented("axis ", axis, " is no row's");
  return static_cast<std::size_t>(axis) - lead;
}

Result<std::vector<MovedFrom>> from_concat(const Node& node, const std::vector<Dims>& inputs,
                                           const Dims& result, std::size_t lead,
                                           const Positions& wanted) {
  TUTTI_ASSIGN_OR_RETURN(const std::size_t axis, inner_axis(node.attr_int("axis"), lead));
  std::vector<MovedFrom> parts;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Dims operand = without_lead(inputs[i], lead);
    Positions positions(wanted.size(), -1);
    bool is_used = false;
    for (std::size_t j = 0; j < wanted.size(); ++j) {
      if (wanted[j] < 0) continue;
      Dims at = coordinates(wanted[j], result);
      at[axis] -= start;
      if (at[axis] < 0 || at[axis] >= operand[axis]) continue;
      positions[j] = flat(at, operand);
      is_used = true;
    }
    if (is_used) parts.push_back({i, std::move(positions)});
    start += operand[axis];
  }
  return parts;
}

}  // namespace

Result<std::vector<MovedFrom>> moved_from(const Node& node, std::size_t output,
                                          const std::vector<Dims>& inputs,
                                          const std::vector<Dims>& outputs, std::size_t lead,
                                          const SymbolMap& symbols, const Positions& wanted) {
  const std::string& type = node.type();
  const Dims operand = without_lead(inputs[0], lead);
  const Dims result = without_lead(outputs[output], lead);
  const auto one = [&](const std::function<Dims(const Dims&)>& move) {
    return std::vector<MovedFrom>{{0, mapped(wanted, result, operand, move)}};
  };
  if (type == "Reshape") return std::vector<MovedFrom>{{0, wanted}};
  if (type == "Concat") return from_concat(node, inputs, result, lead, wanted);
  if (type == "Transpose") {
    const std::vector<std::int64_t> perm = node.attr_ints("perm");
    for (std::size_t d = 0; d < lead; ++d) {
      if (perm[d] != static_cast<std::int64_t>(d)) return unimplemented("rows are transposed");
    }
    return one([&](const Dims& at) {
      Dims from(at.size());
      for (std::size_t d = 0; d < at.size(); ++d) {
        from[static_cast<std::size_t>(perm[d + lead]) - lead] = at[d];
      }
      return from;
    });
  }
  if (type == "Split") {
    TUTTI_ASSIGN_OR_RETURN(const std::size_t axis, inner_axis(node.attr_int("axis"), lead));
    std::int64_t start = 0;
    for (std::size_t i = 0; i < output; ++i) start += outputs[i][axis + lead];
    return one([&](Dims at) {
      at[axis] += start;
      return at;
    });
  }
  if (type == "Slice") {
    const std::vector<std::int64_t> axes = node.attr_ints("axes");
    const std::vector<std::int64_t> steps = node.attr_ints("steps");
    TUTTI_ASSIGN_OR_RETURN(const Dims starts, evaluate(node.attr_dims("starts"), symbols));
    for (const std::int64_t axis : axes) TUTTI_RETURN_IF_ERROR(inner_axis(axis, lead).status());
    return one([&](Dims at) {
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto axis = static_cast<std::size_t>(axes[i]) - lead;
        at[axis] = starts[i] + at[axis] * steps[i];
      }
      return at;
    });
  }
  return unimplemented("there is no code for ", type, " in a row");
}

Positions broadcast_positions(const Dims& result, const Dims& operand, const Positions& wanted) {
  if (result == operand) return wanted;
  const std::size_t shift = result.size() - operand.size();
  return mapped(wanted, result, operand, [&](const Dims& at) {
    Dims from(operand.size());
    for (std::size_t d = 0; d < operand.size(); ++d) from[d] = operand[d] == 1 ? 0 : at[d + shift];
    return from;
  });
}

}  // namespace tutti::cuda
