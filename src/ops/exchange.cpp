// Data moving between the ranks of one mesh axis. The partition pass makes these nodes; no ONNX
// operator lowers to them.
#include <algorithm>

#include "graph/rank_constant.h"
#include "ops/common.h"
#include "ops/families.h"

namespace tutti {
namespace {

// The mesh axis of an exchange: what a rank's coordinate along it is called, and how many there
// are.
struct AxisRef {
  Dim rank;
  std::int64_t ranks = 1;
};

Result<AxisRef> axis_of(const Node& node) {
  const std::string axis = node.attr_string("axis");
  const std::int64_t ranks = node.attr_int("ranks");
  if (axis.empty()) return invalid_argument("attribute 'axis' is empty; a mesh axis is expected");
  if (ranks < 1) return invalid_argument("attribute 'ranks' is ", ranks, ", expected 1 or more");
  return AxisRef{Dim::symbol("rank." + axis), ranks};
}

// One dimension cut into units, each standing `replicas` times in a row.
struct Cut {
  std::int64_t dim = 0;
  Dim units;
  std::int64_t replicas = 1;
};

Status check_cut(const Cut& cut, std::size_t rank) {
  if (cut.dim < 0 || cut.dim >= static_cast<std::int64_t>(rank)) {
    return invalid_argument("dimension ", cut.dim, " is outside [0, ", rank, ")");
  }
  if (cut.replicas < 1) {
    return invalid_argument("'replicas' is ", cut.replicas, ", expected 1 or more");
  }
  return {};
}

// Size of this rank's piece of a dimension of `size`.
Result<Dim> piece_size(const Cut& cut, const Dim& size, const AxisRef& axis) {
  const std::optional<Dim> unit = exact_div(size, cut.units);
  if (!unit) {
    return invalid_argument("dimension ", cut.dim, " of size ", size, " is not a whole number of ",
                            cut.units, " units");
  }
  return part(cut.units * Dim(cut.replicas), axis.ranks, axis.rank) * *unit;
}

Status expect_size(const Dim& found, const Dim& expected, std::int64_t dim) {
  if (found == expected) return {};
  return invalid_argument("dimension ", dim, " of the piece has size ", found, ", expected ",
                          expected);
}

Result<Dim> single_dim(const Node& node, std::string_view name) {
  const Shape dims = node.attr_dims(name);
  if (dims.size() != 1) {
    return invalid_argument("attribute '", std::string(name), "' has ", dims.size(),
                            " elements, expected 1");
  }
  return dims[0];
}

Result<Cut> cut_of(const Node& node) {
  TUTTI_ASSIGN_OR_RETURN(const Dim units, single_dim(node, "units"));
  Cut cut{node.attr_int("dim"), units, node.attr_int("replicas", 1)};
  TUTTI_RETURN_IF_ERROR(check_cut(cut, node.input(0)->rank()));
  return cut;
}

// A dimension in segments is one of a constant, which is cut on loading: no kernel does it.
Status check_segments(const Node& node, const Cut& cut, const Shape& segments,
                      const Shape& grains) {
  Dim sum = 0;
  for (const Dim& segment : segments) sum = sum + segment;
  if (sum != cut.units || cut.replicas != 1) {
    return invalid_argument("segments ", segments, " add up to ", sum, ", expected ", cut.units,
                            " units of 1 replica");
  }
  if (!grains.empty() && grains.size() != segments.size()) {
    return invalid_argument("grains ", grains, " are ", grains.size(), " for ", segments.size(),
                            " segments");
  }
  for (std::size_t i = 0; i < grains.size(); ++i) {
    const bool is_positive = !grains[i].is_constant() || grains[i].constant() > 0;
    if (is_positive && exact_div(segments[i], grains[i])) continue;
    return invalid_argument("segment ", i, " of ", segments[i],
                            " units is no whole number of grains of ", grains[i]);
  }
  if (sliced_constant(*node.input(0)) != nullptr) return {};
  return invalid_argument("cuts '", node.input(0)->name(), "' in segments ", segments,
                          ", which only constants allow");
}

Result<std::vector<TensorType>> infer_slice_in_segments(const Node& node, const Shape& segments) {
  TUTTI_ASSIGN_OR_RETURN(const AxisRef axis, axis_of(node));
  TUTTI_ASSIGN_OR_RETURN(const Cut cut, cut_of(node));
  const Shape grains = node.attr_dims("grains");
  TUTTI_RETURN_IF_ERROR(check_segments(node, cut, segments, grains));
  TensorType type = node.input(0)->type();
  Dim& size = type.shape[static_cast<std::size_t>(cut.dim)];
  const Dim unit = floor_div(size, cut.units);
  size = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Dim units = grains.empty() ? segments[i] : floor_div(segments[i], grains[i]);
    TUTTI_ASSIGN_OR_RETURN(const Dim piece,
                           piece_size({cut.dim, units, 1}, segments[i] * unit, axis));
    size = size + piece;
  }
  return std::vector<TensorType>{std::move(type)};
}

Result<std::vector<TensorType>> infer_shard_slice(const Node& node, int) {
  const Shape segments = node.attr_dims("segments");
  if (!segments.empty()) return infer_slice_in_segments(node, segments);
  TUTTI_ASSIGN_OR_RETURN(const AxisRef axis, axis_of(node));
  TUTTI_ASSIGN_OR_RETURN(const Cut cut, cut_of(node));
  TensorType type = node.input(0)->type();
  Dim& size = type.shape[static_cast<std::size_t>(cut.dim)];
  TUTTI_ASSIGN_OR_RETURN(size, piece_size(cut, size, axis));
  return std::vector<TensorType>{std::move(type)};
}

// Units and sizes are those of each operand, or of all where there is one of them.
Result<std::vector<TensorType>> infer_all_gather(const Node& node, int num_outputs) {
  TUTTI_ASSIGN_OR_RETURN(const AxisRef axis, axis_of(node));
  const Shape units = node.attr_dims("units");
  const Shape sizes = node.attr_dims("size");
  for (const std::size_t length : {units.size(), sizes.size()}) {
    if (length == 1 || length == node.inputs().size()) continue;
    return invalid_argument("an attribute lists ", length, " elements for ", node.inputs().size(),
                            " inputs, expected 1 or as many");
  }
  if (num_outputs != static_cast<int>(node.inputs().size())) {
    return invalid_argument(num_outputs, " outputs for ", node.inputs().size(),
                            " inputs, expected as many");
  }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (node.input(i) == nullptr) return invalid_argument("input ", i, " is absent");
    const Dim& whole = sizes[sizes.size() == 1 ? 0 : i];
    const Cut cut{node.attr_int("dim"), units[units.size() == 1 ? 0 : i],
                  node.attr_int("replicas", 1)};
    TUTTI_RETURN_IF_ERROR(check_cut(cut, node.input(i)->rank()));
    TUTTI_ASSIGN_OR_RETURN(const Dim piece, piece_size(cut, whole, axis));
    TensorType type = node.input(i)->type();
    Dim& size = type.shape[static_cast<std::size_t>(cut.dim)];
    TUTTI_RETURN_IF_ERROR(expect_size(size, piece, cut.dim));
    size = whole;
    types.push_back(std::move(type));
  }
  return types;
}

Result<std::vector<TensorType>> infer_all_to_all(const Node& node, int num_outputs) {
  TUTTI_ASSIGN_OR_RETURN(const AxisRef axis, axis_of(node));
  const std::size_t count = node.inputs().size();
  if (num_outputs != static_cast<int>(count)) {
    return invalid_argument(num_outputs, " outputs for ", count, " inputs, expected as many");
  }
  const auto from_dims = node.attr_ints("from_dims");
  const auto from_replicas = node.attr_ints("from_replicas");
  const auto to_dims = node.attr_ints("to_dims");
  const auto to_replicas = node.attr_ints("to_replicas");
  const Shape from_units = node.attr_dims("from_units");
  const Shape to_units = node.attr_dims("to_units");
  const Shape sizes = node.attr_dims("sizes");
  for (const std::size_t length :
       {from_dims.size(), from_replicas.size(), to_dims.size(), to_replicas.size(),
        from_units.size(), to_units.size(), sizes.size()}) {
    if (length != count) {
      return invalid_argument("an attribute lists ", length, " elements for ", count, " inputs");
    }
  }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < count; ++i) {
    if (node.input(i) == nullptr) return invalid_argument("input ", i, " is absent");
    TensorType type = node.input(i)->type();
    const Cut from{from_dims[i], from_units[i], from_replicas[i]};
    const Cut to{to_dims[i], to_units[i], to_replicas[i]};
    TUTTI_RETURN_IF_ERROR(check_cut(from, type.shape.size()));
    TUTTI_RETURN_IF_ERROR(check_cut(to, type.shape.size()));
    if (from.dim == to.dim) {
      return invalid_argument("input ", i, " goes from dimension ", from.dim,
                              " to the same dimension");
    }
    Dim& gathered = type.shape[static_cast<std::size_t>(from.dim)];
    Dim& split = type.shape[static_cast<std::size_t>(to.dim)];
    TUTTI_ASSIGN_OR_RETURN(const Dim piece, piece_size(from, sizes[i], axis));
    TUTTI_RETURN_IF_ERROR(expect_size(gathered, piece, from.dim));
    gathered = sizes[i];
    TUTTI_ASSIGN_OR_RETURN(split, piece_size(to, split, axis));
    types.push_back(std::move(type));
  }
  return types;
}

Status check_reduce_op(const Node& node) {
  const std::string op = node.attr_string("op", "sum");
  if (op == "sum" || op == "max" || op == "min") return {};
  return invalid_argument("attribute 'op' is '", op, "', expected sum, max or min");
}

Result<std::vector<TensorType>> infer_all_reduce(const Node& node, int) {
  TUTTI_RETURN_IF_ERROR(axis_of(node));
  TUTTI_RETURN_IF_ERROR(check_reduce_op(node));
  return std::vector<TensorType>{node.input(0)->type()};
}

Result<std::vector<TensorType>> infer_reduce_scatter(const Node& node, int num_outputs) {
  TUTTI_RETURN_IF_ERROR(check_reduce_op(node));
  return infer_shard_slice(node, num_outputs);
}

// --- Layout rules: along another mesh axis, an exchange works on pieces of what it leaves alone.
// ---

// Operands that travel together are split together, along dimensions that are the same in all and
// that none of them moves.
template <class F>
FactorMap factors_except(const Node& node, F&& is_moved) {
  FactorMap map = empty_factors(node);
  const Shape& first = node.input(0)->shape();
  const auto is_shared = [&](std::size_t d) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Shape& shape = node.input(i)->shape();
      if (shape.size() != first.size() || shape[d] != first[d]) return false;
      if (is_moved(i, static_cast<std::int64_t>(d))) return false;
    }
    return true;
  };
  for (std::size_t d = 0; d < first.size(); ++d) {
    if (first[d].is(1) || !is_shared(d)) continue;
    const int factor = map.add(factor_name(d), first[d]);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      map.inputs[i][d] = map.outputs[i][d] = {factor};
    }
  }
  const auto add_whole = [&map](const Value& value, DimFactors* row) {
    for (std::size_t d = 0; d < row->size(); ++d) {
      if (!(*row)[d].empty() || value.shape()[d].is(1)) continue;
      (*row)[d] = {map.add("w", value.shape()[d], FactorRole::kWhole)};
    }
  };
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    add_whole(*node.input(i), &map.inputs[i]);
    add_whole(*node.output(i), &map.outputs[i]);
  }
  return map;
}

FactorMap cut_factors(const Node& node) {
  const std::int64_t dim = node.attr_int("dim");
  return factors_except(node, [dim](std::size_t, std::int64_t d) { return d == dim; });
}

FactorMap all_reduce_factors(const Node& node) {
  return factors_except(node, [](std::size_t, std::int64_t) { return false; });
}

FactorMap all_to_all_factors(const Node& node) {
  const auto from_dims = node.attr_ints("from_dims");
  const auto to_dims = node.attr_ints("to_dims");
  return factors_except(
      node, [&](std::size_t i, std::int64_t d) { return from_dims[i] == d || to_dims[i] == d; });
}

Dim no_flops(const Node&) { return 0; }

// One addition an element and rank beyond the first.
Dim reduce_flops(const Node& node) {
  return product(node.input(0)->shape()) * Dim(node.attr_int("ranks") - 1);
}

OpDef exchange(std::string type, std::vector<AttributeSpec> attributes) {
  OpDef def;
  def.type = std::move(type);
  def.domain = "ai.tutti";
  def.attributes = {{"axis", AttributeKind::kString, true}, {"ranks", AttributeKind::kInt, true}};
  def.attributes.insert(def.attributes.end(), attributes.begin(), attributes.end());
  def.flops = no_flops;
  def.is_exchange = true;
  return def;
}

}  // namespace

void register_exchange_ops(OpRegistry* ops, LoweringRegistry* /*lowerings*/) {
  const AttributeSpec dim{"dim", AttributeKind::kInt, true};
  const AttributeSpec units{"units", AttributeKind::kDims, true};
  const AttributeSpec replicas{"replicas", AttributeKind::kInt, false};
  const AttributeSpec op{"op", AttributeKind::kString, false};

  OpDef shard_slice = exchange("ShardSlice", {dim,
                                              units,
                                              replicas,
                                              {"segments", AttributeKind::kDims, false},
                                              {"grains", AttributeKind::kDims, false}});
  shard_slice.infer = infer_shard_slice;
  shard_slice.factors = cut_factors;
  shard_slice.is_exchange = false;  // local: no other rank takes part
  ops->add(std::move(shard_slice));

  OpDef all_gather =
      exchange("AllGather", {dim, units, replicas, {"size", AttributeKind::kDims, true}});
  all_gather.infer = infer_all_gather;
  all_gather.factors = cut_factors;
  all_gather.max_inputs = kVariadic;
  all_gather.num_outputs = kVariadic;
  ops->add(std::move(all_gather));

  OpDef all_to_all = exchange("AllToAll", {{"from_dims", AttributeKind::kInts, true},
                                           {"from_units", AttributeKind::kDims, true},
                                           {"from_replicas", AttributeKind::kInts, true},
                                           {"to_dims", AttributeKind::kInts, true},
                                           {"to_units", AttributeKind::kDims, true},
                                           {"to_replicas", AttributeKind::kInts, true},
                                           {"sizes", AttributeKind::kDims, true}});
  all_to_all.infer = infer_all_to_all;
  all_to_all.factors = all_to_all_factors;
  all_to_all.max_inputs = kVariadic;
  all_to_all.num_outputs = kVariadic;
  ops->add(std::move(all_to_all));

  OpDef all_reduce = exchange("AllReduce", {op});
  all_reduce.infer = infer_all_reduce;
  all_reduce.factors = all_reduce_factors;
  all_reduce.flops = reduce_flops;
  ops->add(std::move(all_reduce));

  OpDef reduce_scatter = exchange("ReduceScatter", {op, dim, units});
  reduce_scatter.infer = infer_reduce_scatter;
  reduce_scatter.factors = cut_factors;
  reduce_scatter.flops = reduce_flops;
  ops->add(std::move(reduce_scatter));
}

}  // namespace tutti
