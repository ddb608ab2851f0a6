// How the queries and keys of an attention whose tokens are split meet, and what each way moves.
#pragma once

#include <optional>

#include "compiler/compile.h"
#include "compiler/cost.h"
#include "compiler/layout.h"

namespace tutti {

// Bytes that all ranks send together, at the estimated sizes.
struct AttentionBytes {
  std::optional<double> heads;  // queries, keys, values and results travel; none: heads run out
  double keys = 0;              // keys and values travel to where the queries are
};

// Units of the query heads so that every rank has heads of its own; nullopt: heads run out.
std::optional<Dim> head_units(const Node& attention, int ranks);

// Longer pieces and larger shares of heads go to the same ranks. The formulas stand in
// tests/zoo/exchange_minimum.py with their sources, which checks plans against them.
AttentionBytes attention_bytes(const Node& attention, const TravellingRows& rows, int ranks,
                               const SizeEstimate& sizes);

// Keys take less time to gather than heads to exchange: by bytes, and, under a causal mask, by the
// work that is left to the rank with the last queries. Of two that move as much, heads go first:
// they hold no whole keys.
bool gathering_is_cheaper(const Node& attention, const AttentionBytes& bytes, int ranks,
                          const CostRates& rates, const SizeEstimate& sizes);

// How an attention came to be split along the sharding's axis, for `--explain`.
AttentionChoice describe_attention(const Node& attention, const TravellingRows& rows,
                                   const FactorMaps& maps, const Sharding& sharding,
                                   const CompileOptions& options, const SizeEstimate& sizes);

}  // namespace tutti
