#include "compiler/attention_exchange.h"

#include <algorithm>
#include <cmath>

#include "compiler/strategy.h"

namespace tutti {
namespace {

// Pieces of `count`, the longer ones first.
std::vector<double> pieces_of(double count, int ranks) {
  const auto whole = static_cast<std::int64_t>(count);
  std::vector<double> pieces;
  pieces.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t size = whole / ranks + (rank < whole % ranks ? 1 : 0);
    pieces.push_back(static_cast<double>(size));
  }
  return pieces;
}

struct AttentionSizes {
  double batch, heads, groups, results, width, result_width;
  double key_width;  // and that of values
};

AttentionSizes sizes_of(const Node& attention, const TravellingRows& rows,
                        const SizeEstimate& sizes) {
  const auto tokens = static_cast<std::size_t>(token_dimension(attention));
  const Shape& q = attention.input(0)->shape();
  const Shape& k = attention.input(1)->shape();
  const double width = sizes(q[3]);
  const double result_width = sizes(attention.output()->shape()[3]);
  return {sizes(q[0]),
          sizes(q[3 - tokens]),
          sizes(k[3 - tokens]),
          sizes(q[tokens]),
          width,
          result_width,
          width + (rows.has_values ? result_width : 0)};
}

double elements_by_heads(const AttentionSizes& of, double queries, double keys, double units,
                         int ranks) {
  const std::vector<double> query_pieces = pieces_of(queries, ranks);
  const std::vector<double> key_pieces = pieces_of(keys, ranks);
  const std::vector<double> result_pieces = pieces_of(of.results, ranks);
  const std::vector<double> shares = pieces_of(units, ranks);
  double sum = 0;
  double first = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const double heads = shares[r] * of.heads / units;
    const double groups =
        std::ceil((first + shares[r]) * of.groups / units) - std::floor(first * of.groups / units);
    first += shares[r];
    sum += (queries - query_pieces[r]) * heads * of.width;
    sum += (keys - key_pieces[r]) * groups * of.key_width;
    sum += result_pieces[r] * (of.heads - heads) * of.result_width;
  }
  return of.batch * sum;
}

// Of a bias over pairs: for the queries of other ranks, what a rank's heads add to their scores.
double bias_bytes(const Node& attention, const TravellingRows& rows, double units, int ranks,
                  const SizeEstimate& sizes) {
  if (rows.bias_heads.is(0)) return 0;
  constexpr std::size_t kMask = 3;
  const Value& bias = *attention.input(kMask);
  const AttentionSizes of = sizes_of(attention, rows, sizes);
  const std::vector<double> pieces = pieces_of(sizes(rows.queries), ranks);
  const std::vector<double> shares = pieces_of(units, ranks);
  double rows_of_heads = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const double heads = rows.bias_heads.is(1) ? 1 : shares[r] * of.heads / units;
    rows_of_heads += (sizes(rows.queries) - pieces[r]) * heads;
  }
  const double batch = bias.rank() > 3 ? sizes(bias.shape()[0]) : 1;
  return static_cast<double>(dtype_size(bias.dtype())) * batch * rows_of_heads *
         sizes(bias.shape().back());
}

std::string way_of(const Node& attention, const FactorMap& map, const FactorSplit* split,
                   int ranks) {
  if (split == nullptr) return "whole";
  if (splits_heads(attention, map, *split, ranks)) return "heads";
  const auto tokens = static_cast<std::size_t>(token_dimension(attention));
  if (split->factors == map.inputs[0][tokens]) return "keys";
  return split->factors == map.inputs[0][0] ? "sequences" : "other";
}

// What a value's producer makes along the axis.
bool is_in_pieces(const Value& value, const FactorMaps& maps, const Sharding& sharding) {
  const Node* node = value.producer();
  const FactorSplit* split = node == nullptr ? nullptr : sharding.find(*node);
  if (split == nullptr) return false;
  const auto output = static_cast<std::size_t>(value.producer_output());
  return !output_layout(maps.at(node), output, split, sharding.axis).is_replicated();
}

}  // namespace

std::optional<Dim> head_units(const Node& attention, int ranks) {
  const auto heads = static_cast<std::size_t>(3 - token_dimension(attention));
  const Dim& query = attention.input(0)->shape()[heads];
  const Dim& groups = attention.input(1)->shape()[heads];
  if (!query.is_constant() || !groups.is_constant() || groups.is(0)) return std::nullopt;
  const std::int64_t size = query.constant() / groups.constant();
  for (std::int64_t copies = 1; copies <= size; ++copies) {
    const std::int64_t units = groups.constant() * copies;
    if (size % copies == 0 && units >= ranks) return Dim(units);
  }
  return std::nullopt;
}

AttentionBytes attention_bytes(const Node& attention, const TravellingRows& rows, int ranks,
                               const SizeEstimate& sizes) {
  const AttentionSizes of = sizes_of(attention, rows, sizes);
  const double element = static_cast<double>(dtype_size(attention.input(0)->dtype()));
  const double keys = sizes(rows.keys);
  AttentionBytes bytes;
  bytes.keys = element * of.batch * (ranks - 1) * keys * of.groups * of.key_width;
  for (const double units : {of.groups, of.heads}) {
    if (units < ranks) continue;
    const double moved = element * elements_by_heads(of, sizes(rows.queries), keys, units, ranks) +
                         bias_bytes(attention, rows, units, ranks, sizes);
    bytes.heads = std::min(moved, bytes.heads.value_or(moved));
  }
  return bytes;
}

bool gathering_is_cheaper(const Node& attention, const AttentionBytes& bytes, int ranks,
                          const CostRates& rates, const SizeEstimate& sizes) {
  if (!bytes.heads) return true;
  double seconds = (*bytes.heads - bytes.keys) / ranks / rates.bytes_per_second;
  if (attention.attr_int("is_causal") != 0) {
    // Of the triangle, the last queries' stripe against an equal share.
    const double n = ranks;
    const double triangle = sizes(node_flops(attention)) / 2;
    seconds -= triangle * ((2 * n - 1) / (n * n) - 1 / n) / rates.flops_per_second;
  }
  return seconds > 0;
}

AttentionChoice describe_attention(const Node& attention, const TravellingRows& rows,
                                   const FactorMaps& maps, const Sharding& sharding,
                                   const CompileOptions& options, const SizeEstimate& sizes) {
  const int ranks = options.mesh.size(sharding.axis);
  AttentionChoice choice;
  choice.node = attention.name();
  choice.axis = options.mesh.axes()[static_cast<std::size_t>(sharding.axis)].name;
  choice.way = way_of(attention, maps.at(&attention), sharding.find(attention), ranks);
  const bool moves_keys = is_in_pieces(*attention.input(1), maps, sharding) ||
                          is_in_pieces(*attention.input(2), maps, sharding);
  choice.has_whole_keys = choice.way == "keys" && !moves_keys;
  const AttentionBytes bytes = attention_bytes(attention, rows, ranks, sizes);
  choice.bytes_by_heads = bytes.heads;
  choice.bytes_by_keys = bytes.keys;
  return choice;
}

}  // namespace tutti
