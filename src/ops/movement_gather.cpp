// Gather, GatherElements, GatherND.
#include <algorithm>

#include "ops/movement.h"

namespace tutti {
namespace {

Status check_index_bounds(const Value& indices, const Dim& size) {
  if (!indices.symbolic() || !size.is_constant()) return {};
  for (const Dim& index : *indices.symbolic()) {
    if (!index.is_constant()) continue;
    if (index.constant() < -size.constant() || index.constant() >= size.constant()) {
      return invalid_argument("index ", index, " is not in [-", size, ", ", size, ")");
    }
  }
  return {};
}

// --- Gather -----------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_gather(const Node& node, int) {
  const Value& data = *node.input(0);
  const Value& indices = *node.input(1);
  const std::int64_t axis = node.attr_int("axis");
  TUTTI_RETURN_IF_ERROR(check_axis(axis, data.rank()));
  TUTTI_RETURN_IF_ERROR(check_integers(indices, "indices"));
  const Shape rows = node.attr_dims("rows");
  const Dim& size = rows.empty() ? data.shape()[static_cast<std::size_t>(axis)] : rows[0];
  TUTTI_RETURN_IF_ERROR(check_index_bounds(indices, size));
  Shape shape(data.shape().begin(), data.shape().begin() + axis);
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), data.shape().begin() + axis + 1, data.shape().end());
  return one_type(data.dtype(), std::move(shape));
}

std::optional<std::vector<Dim>> gathered_elements(const Node& node) {
  const auto& data = node.input(0)->symbolic();
  const auto& indices = node.input(1)->symbolic();
  if (!data || !indices || node.input(0)->rank() != 1) return std::nullopt;
  const auto count = static_cast<std::int64_t>(data->size());
  std::vector<Dim> out;
  for (const Dim& index : *indices) {
    if (!index.is_constant()) return std::nullopt;
    const std::int64_t at = index.constant() < 0 ? index.constant() + count : index.constant();
    if (at < 0 || at >= count) return std::nullopt;
    out.push_back((*data)[static_cast<std::size_t>(at)]);
  }
  return out;
}

// A table so large that every rank of a mesh axis would hold some of its rows.
bool is_large_table(const Value& data, const Dim& rows) {
  constexpr std::int64_t kMostRanks = 1024;
  return data.is_constant() && is_floating(data.dtype()) && rows.is_constant() &&
         rows.constant() >= kMostRanks;
}

// Ranks that hold some rows of a table look up what they have; the rest is zeros, and the sum of
// all is right.
FactorMap factors_of_gather(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const Shape& data = node.input(0)->shape();
  const std::size_t index_rank = node.input(1)->rank();
  map.outputs[0] = add_factors(&map, node.output()->shape());
  for (std::size_t d = 0; d < index_rank; ++d) map.inputs[1][d] = map.outputs[0][axis + d];
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (d < axis) map.inputs[0][d] = map.outputs[0][d];
    if (d > axis) map.inputs[0][d] = map.outputs[0][d + index_rank - 1];
  }
  if (!data[axis].is(1)) {
    const bool is_large = is_large_table(*node.input(0), data[axis]);
    const FactorRole role = is_large ? FactorRole::kReduction : FactorRole::kWhole;
    map.inputs[0][axis] = {map.add("g", data[axis], role)};
  }
  return map;
}

// The first index when constant indices count upwards by one from it.
std::optional<std::int64_t> contiguous_start(const Value& indices, const Dim& size) {
  constexpr std::int64_t kMany = 1 << 20;
  if (!indices.is_constant() || indices.rank() > 1) return std::nullopt;
  if (indices.constant().element_count() == 0 || indices.constant().element_count() > kMany) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers = indices.constant().to_ints();
  for (std::int64_t& number : numbers) {
    if (number >= 0) continue;
    if (!size.is_constant()) return std::nullopt;
    number += size.constant();
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[0] + static_cast<std::int64_t>(i)) return std::nullopt;
  }
  return numbers[0];
}

Status lower_gather(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  Value* data = c.input(0);
  Value* indices = c.input(1);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, data->rank()));
  const Dim& size = data->shape()[static_cast<std::size_t>(axis)];
  TUTTI_RETURN_IF_ERROR(check_index_bounds(*indices, size));
  const auto start = data->symbolic() ? std::nullopt : contiguous_start(*indices, size);
  if (!start) return finish(c, c.b.op("Gather", {data, indices}, {{"axis", axis}}));
  const std::int64_t count = indices->constant().element_count();
  if (size.is_constant() && *start + count > size.constant()) {
    return invalid_argument("index ", *start + count - 1, " is past axis ", axis, " of ",
                            data->type());
  }
  Value* piece = data;
  if (*start != 0 || !size.is(count)) {
    piece = c.b.slice(data, {axis}, {*start}, {*start + count});
  }
  if (indices->rank() == 0 && piece != nullptr) {
    piece = c.b.reshape(piece, without_axes(piece->shape(), {axis}));
  }
  return finish(c, piece);
}

// --- GatherElements ---------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_gather_elements(const Node& node, int) {
  const Value& data = *node.input(0);
  const Value& indices = *node.input(1);
  const std::int64_t axis = node.attr_int("axis");
  TUTTI_RETURN_IF_ERROR(check_axis(axis, data.rank()));
  TUTTI_RETURN_IF_ERROR(check_integers(indices, "indices"));
  if (indices.rank() != data.rank()) {
    return invalid_argument("indices are ", indices.type(), "; expected the rank of ", data.type());
  }
  for (std::size_t d = 0; d < data.rank(); ++d) {
    const Dim room = data.shape()[d] - indices.shape()[d];
    if (static_cast<std::int64_t>(d) != axis && room.is_constant() && room.constant() < 0) {
      return invalid_argument("indices ", indices.type(), " reach past ", data.type(),
                              " in dimension ", d);
    }
  }
  return one_type(data.dtype(), indices.shape());
}

FactorMap factors_of_gather_elements(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto axis = static_cast<std::size_t>(node.attr_int("axis"));
  const Shape& data = node.input(0)->shape();
  const Shape& indices = node.input(1)->shape();
  for (std::size_t d = 0; d < data.size(); ++d) {
    // Indices of another size take the first ones of the data: pieces would not line up.
    const bool same = data[d] == indices[d];
    const bool parallel = d == axis || same;
    if (!indices[d].is(1)) {
      const int factor = map.add(factor_name(d), indices[d],
                                 parallel ? FactorRole::kParallel : FactorRole::kWhole);
      map.inputs[1][d] = map.outputs[0][d] = {factor};
    }
    if (d != axis && same) {
      map.inputs[0][d] = map.inputs[1][d];
    } else if (!data[d].is(1)) {
      map.inputs[0][d] = {map.add(str_cat("g", d), data[d], FactorRole::kWhole)};
    }
  }
  return map;
}

Status lower_gather_elements(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, axis_attribute(c, "axis", 0, c.input(0)->rank()));
  return finish(c, c.b.op("GatherElements", {c.input(0), c.input(1)}, {{"axis", axis}}));
}

// --- GatherND ---------------------------------------------------------------------------------

Result<std::vector<TensorType>> infer_gather_nd(const Node& node, int) {
  const Value& data = *node.input(0);
  const Value& indices = *node.input(1);
  const std::int64_t batch = node.attr_int("batch_dims", 0);
  TUTTI_RETURN_IF_ERROR(check_integers(indices, "indices"));
  if (data.rank() == 0 || indices.rank() == 0) {
    return invalid_argument("operands are ", data.type(), " and ", indices.type(),
                            "; expected at least one dimension each");
  }
  const Dim depth = indices.shape().back();
  const auto least = static_cast<std::int64_t>(std::min(data.rank(), indices.rank()));
  if (batch < 0 || batch >= least) {
    return invalid_argument("batch_dims ", batch, " is not in [0, ", least, ")");
  }
  const auto left = static_cast<std::int64_t>(data.rank()) - batch;
  if (!depth.is_constant() || depth.constant() < 1 || depth.constant() > left) {
    return invalid_argument("the last dimension of indices is ", depth, "; expected 1 to ", left);
  }
  for (std::size_t d = 0; d < static_cast<std::size_t>(batch); ++d) {
    if (surely_differ(data.shape()[d], indices.shape()[d])) {
      return invalid_argument("batch dimension ", d, " is ", data.shape()[d], " and ",
                              indices.shape()[d]);
    }
  }
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), data.shape().begin() + batch + depth.constant(), data.shape().end());
  return one_type(data.dtype(), std::move(shape));
}

FactorMap factors_of_gather_nd(const Node& node) {
  FactorMap map = empty_factors(node);
  const auto batch = static_cast<std::size_t>(node.attr_int("batch_dims", 0));
  const Shape& data = node.input(0)->shape();
  const Shape& indices = node.input(1)->shape();
  const auto depth = static_cast<std::size_t>(indices.back().constant());
  map.outputs[0] = add_factors(&map, node.output()->shape());
  for (std::size_t d = 0; d + 1 < indices.size(); ++d) map.inputs[1][d] = map.outputs[0][d];
  if (!indices.back().is(1)) {
    map.inputs[1].back() = {map.add("n", indices.back(), FactorRole::kWhole)};
  }
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (d < batch && data[d] == indices[d]) {
      map.inputs[0][d] = map.outputs[0][d];
    } else if (d >= batch + depth) {
      map.inputs[0][d] = map.outputs[0][indices.size() - 1 + d - batch - depth];
    } else if (!data[d].is(1)) {
      map.inputs[0][d] = {map.add(str_cat("g", d), data[d], FactorRole::kWhole)};
      if (d >= batch || map.outputs[0][d].empty()) continue;
      map.factors[static_cast<std::size_t>(map.outputs[0][d][0])].role = FactorRole::kWhole;
    }
  }
  return map;
}

Status lower_gather_nd(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 2));
  return finish(c, c.b.op("GatherND", {c.input(0), c.input(1)},
                          {{"batch_dims", c.attr_int("batch_dims", 0)}}));
}

}  // namespace

void register_gather_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef gather;
  gather.type = "Gather";
  gather.min_inputs = gather.max_inputs = 2;
  gather.attributes = {{"axis", AttributeKind::kInt, true},
                       {"first_row", AttributeKind::kDims, false},
                       {"rows", AttributeKind::kDims, false}};
  gather.infer = infer_gather;
  gather.symbolic = gathered_elements;
  gather.factors = factors_of_gather;
  ops->add(std::move(gather));

  OpDef elements;
  elements.type = "GatherElements";
  elements.min_inputs = elements.max_inputs = 2;
  elements.attributes = {{"axis", AttributeKind::kInt, true}};
  elements.infer = infer_gather_elements;
  elements.factors = factors_of_gather_elements;
  ops->add(std::move(elements));

  OpDef nd;
  nd.type = "GatherND";
  nd.min_inputs = nd.max_inputs = 2;
  nd.attributes = {{"batch_dims", AttributeKind::kInt, false}};
  nd.infer = infer_gather_nd;
  nd.factors = factors_of_gather_nd;
  ops->add(std::move(nd));

  add_lowering(lowerings, "Gather", lower_gather, {"axis"});
  add_lowering(lowerings, "GatherElements", lower_gather_elements, {"axis"});
  add_lowering(lowerings, "GatherND", lower_gather_nd, {"batch_dims"});
}

}  // namespace tutti
