// Attentions within groups of a sequence's tokens.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace tutti {

// The queries [batch * count, size, heads, width] are those of sequences [batch, count * size, ..]
// that a reshape in front of the attention lays out in groups of neighbours.
struct TokenGroups {
  Dim batch = 1;
  std::int64_t count = 0;
  std::int64_t size = 0;

  std::int64_t tokens() const { return count * size; }
  // Equal pieces of the sequence hold whole groups.
  bool are_pieces(int ranks) const { return count % ranks == 0; }
};

// nullopt: the queries stand in no such groups, or sizes are open.
std::optional<TokenGroups> token_groups(const Node& attention);

}  // namespace tutti
