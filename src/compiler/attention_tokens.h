// Which tokens an attention works on: sequences that are joined in front of it and cut apart behind
// it, short ones beside long ones, pairs of tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/sequences.h"

namespace tutti {

// All of them, for passes that change the graph as they go.
std::vector<Node*> attentions_of(const Graph& graph);

// Nodes between a projection and its attention: they move, turn and scale tokens.
bool is_light(const Node& node);

// The operands of a Concat that joins token sequences (text and video, say) on the way to an
// attention's operand; empty when nothing is joined there.
std::vector<TokenDim> joined_before(const TokenDim& operand);

// Where an attention's output is cut along tokens again: the results of Slice or Split.
std::vector<TokenDim> cut_behind(const TokenDim& output);

// Tokens of the longest sequences; 0 where a size is open.
std::int64_t longest_sequence(const Graph& graph);

// Many short sequences beside long ones: attention over the frames of each place in a video, whose
// places are the tokens of another attention. It follows the split of its batch.
bool is_over_batch(const Node& attention, std::int64_t longest);

// The tokens of the longest sequence in groups, frame by frame: pieces of the sequence are not
// pieces of each group.
bool is_in_groups(const Node& attention, std::int64_t longest);

// Nothing but many short sequences.
bool is_all_batch(const Graph& graph);

// Values over pairs of a query and a key, back from an attention's mask (a pair representation),
// each with its dimension of queries. Nothing where no real work stands in front of the mask.
std::vector<TokenDim> pair_rows(const Node& attention);

}  // namespace tutti
