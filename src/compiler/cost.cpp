#include "compiler/cost.h"

#include <set>

namespace tutti {
namespace {

Dim without(const Shape& shape, std::int64_t dim) {
  Dim out = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<std::int64_t>(d) != dim) out = out * shape[d];
  }
  return out;
}

Dim bytes_of(const Value& value, const Dim& elements) {
  return elements * Dim(static_cast<std::int64_t>(dtype_size(value.dtype())));
}

// Different units among the copies that `rank` holds: its copies are [offset, offset + size).
Dim distinct_units(const Dim& units, std::int64_t replicas, std::int64_t ranks, const Dim& rank) {
  const Dim copies = units * Dim(replicas);
  if (replicas == 1) return part(units, ranks, rank);
  const Dim each = floor_div(copies, Dim(ranks));
  const Dim rest = mod(copies, Dim(ranks));
  if (rest.is(0) && each.is_constant() && each.constant() > 0) {
    if (replicas % each.constant() == 0) return 1;
    if (each.constant() % replicas == 0) return Dim(each.constant() / replicas);
  }
  const Dim offset = rank * each + min(rank, rest);
  return ceil_div(offset + part(copies, ranks, rank), Dim(replicas)) -
         floor_div(offset, Dim(replicas));
}

// The same as gathering keys and values; a causal one sends less.
Dim ring_attention_bytes(const Node& node) {
  Dim elements = 0;
  for (const std::size_t operand : {std::size_t{1}, std::size_t{2}}) {
    elements = elements + product(node.input(operand)->shape());
  }
  return bytes_of(*node.input(1), elements * Dim(node.attr_int("ranks") - 1));
}

Dim all_to_all_bytes(const Node& node) {
  const auto from_replicas = node.attr_ints("from_replicas");
  const auto to_dims = node.attr_ints("to_dims");
  const auto to_replicas = node.attr_ints("to_replicas");
  const Shape to_units = node.attr_dims("to_units");
  const Dim rank = Dim::symbol("rank." + node.attr_string("axis"));
  Dim sum = 0;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value& in = *node.input(i);
    const auto to = static_cast<std::size_t>(to_dims[i]);
    const Dim sent =
        units_held_elsewhere(to_units[i], to_replicas[i], node.attr_int("ranks"), rank) *
        floor_div(in.shape()[to], to_units[i]);
    sum = sum +
          floor_div(bytes_of(in, without(in.shape(), to_dims[i]) * sent), Dim(from_replicas[i]));
  }
  return sum;
}

Dim halo_bytes(const Node& node) {
  const Value& in = *node.input(0);
  WindowMap map;
  map.stride = node.attr_int("stride");
  map.offset = node.attr_dims("offset")[0];
  map.extent = node.attr_int("extent");
  map.edge = parse_window_edge(node.attr_string("edge")).value_or(WindowEdge::kZero);
  const Dim size = node.attr_dims("size")[0];
  const Dim rows =
      halo_sent_rows(size, node.attr_dims("from_units")[0],
                     SplitWindow{node.attr_dims("rows")[0], size, map}, node.attr_dims("units")[0],
                     node.attr_int("ranks"), Dim::symbol("rank." + node.attr_string("axis")));
  return bytes_of(in, without(in.shape(), node.attr_int("dim")) * rows);
}

}  // namespace

Dim units_held_elsewhere(const Dim& units, std::int64_t replicas, std::int64_t ranks,
                         const Dim& rank) {
  if (replicas == 1) return units - part(units, ranks, rank);
  Dim all = 0;
  for (std::int64_t other = 0; other < ranks; ++other) {
    all = all + distinct_units(units, replicas, ranks, Dim(other));
  }
  return all - distinct_units(units, replicas, ranks, rank);
}

namespace {

struct RowRange {
  Dim begin;
  Dim count;
};

RowRange rows_of(const Dim& size, const Dim& units, std::int64_t ranks, const Dim& rank) {
  const Dim unit = floor_div(size, units);
  const Dim n(ranks);
  const Dim rest = mod(units, n);
  const Dim first = rank * floor_div(units, n) + (rest.is(0) ? Dim(0) : min(rank, rest));
  return {unit * first, unit * part(units, ranks, rank)};
}

// Of `count` rows from the start of a window on, those that some window reads.
Dim rows_read(const WindowMap& map, const Dim& count) {
  if (map.extent >= map.stride) return count;
  return floor_div(count, Dim(map.stride)) * Dim(map.extent) +
         min(mod(count, Dim(map.stride)), Dim(map.extent));
}

// The part of `own` rows that the windows of `result` rows read.
Dim rows_shared(const RowRange& own, const RowRange& result, const WindowMap& map,
                const Dim& size) {
  const Dim begin = result.begin * Dim(map.stride) + map.offset;
  Dim first = begin;
  Dim last = begin + (result.count - Dim(1)) * Dim(map.stride) + Dim(map.extent);
  if (map.edge == WindowEdge::kEdge) {
    first = min(first, size - Dim(1));
    last = max(last, Dim(1));
  }
  const Dim from = max(own.begin, first);
  const Dim to = max(from, min(own.begin + own.count, last));
  const Dim rows = rows_read(map, to - begin) - rows_read(map, from - begin);
  return min(result.count, Dim(1)) * rows;  // a rank without work reads nothing
}

}  // namespace

Dim halo_sent_rows(const Dim& size, const Dim& from_units, const SplitWindow& window,
                   const Dim& units, std::int64_t ranks, const Dim& rank) {
  const RowRange own = rows_of(size, from_units, ranks, rank);
  Dim sum = Dim(0) - rows_shared(own, rows_of(window.rows, units, ranks, rank), window.map, size);
  for (std::int64_t peer = 0; peer < ranks; ++peer) {
    sum = sum + rows_shared(own, rows_of(window.rows, units, ranks, Dim(peer)), window.map, size);
  }
  return sum;
}

Dim node_flops(const Node& node) {
  if (node.op().flops != nullptr) return node.op().flops(node);
  if (!node.op().is_pointwise) return 0;
  return product(node.output()->shape());
}

Dim exchange_sent_bytes(const Node& node) {
  if (!node.op().is_exchange) return 0;
  const Value& in = *node.input(0);
  const Dim ranks(node.attr_int("ranks"));
  const Dim others = ranks - Dim(1);
  if (node.type() == "AllToAll") return all_to_all_bytes(node);
  if (node.type() == "Halo") return halo_bytes(node);
  if (node.type() == "RingAttention" || node.type() == "JoinedRingAttention") {
    return ring_attention_bytes(node);
  }
  if (node.type() == "AllGather") {
    Dim bytes = 0;
    for (const Value* piece : node.inputs()) {
      bytes = bytes + floor_div(bytes_of(*piece, product(piece->shape()) * others),
                                Dim(node.attr_int("replicas", 1)));
    }
    return bytes;
  }
  if (node.type() == "AllReduce") {
    return floor_div(bytes_of(in, Dim(2) * product(in.shape()) * others), ranks);
  }
  return bytes_of(in, product(in.shape()) - product(node.output()->shape()));  // ReduceScatter
}

bool is_real_work(const Node& node) {
  static const std::set<std::string, std::less<>> kTypes = {"MatMul",        "Linear",
                                                            "Attention",     "Conv",
                                                            "ConvTranspose", "LayerNormalization",
                                                            "Softmax",       "RMSNormalization",
                                                            "GroupNorm",     "LogSoftmax"};
  return kTypes.contains(node.type());
}

double SizeEstimate::operator()(const Dim& dim) const {
  if (dim.is_constant()) return static_cast<double>(dim.constant());
  std::vector<std::string> names;
  dim.collect_symbols(&names);
  SymbolMap symbols = typical_;
  for (const std::string& name : names) symbols.emplace(name, name.starts_with("rank.") ? 0 : 32);
  const auto value = dim.evaluate(symbols);
  return value.ok() ? static_cast<double>(*value) : 9e18;
}

double SizeEstimate::mean_over_ranks(const Dim& dim, const Mesh& mesh, int axis) const {
  const int ranks = mesh.size(axis);
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    SymbolMap symbols = typical_;
    symbols["rank." + mesh.axes()[static_cast<std::size_t>(axis)].name] = rank;
    sum += SizeEstimate(std::move(symbols))(dim);
  }
  return sum / ranks;
}

std::map<std::string, double> flops_by_type(const Graph& graph, const Mesh& mesh, int rank,
                                            const SizeEstimate& sizes) {
  SymbolMap symbols = sizes.symbols();
  mesh.bind(rank, &symbols);
  const SizeEstimate bound(std::move(symbols));
  std::map<std::string, double> out;
  for (const auto& node : graph.nodes()) {
    const double flops = bound(node_flops(*node));
    if (flops > 0) out[node->type()] += flops;
  }
  return out;
}

}  // namespace tutti
