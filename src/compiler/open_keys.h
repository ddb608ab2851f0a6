// Which keys of an attention its mask opens, where a constant says so.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace tutti {

struct OpenKeys {
  std::int64_t first = 0;
  std::int64_t end = 0;      // behind the last
  bool are_all_open = true;  // to every query, between first and end
};

// From the first to the last key that the mask opens to any of the queries [first_query,
// end_query). A closed key is `false`, or minus infinity, and adds nothing to any result. nullopt:
// no constant says, something else closes keys as well, or no key is open.
std::optional<OpenKeys> open_keys(const Node& attention, std::int64_t first_query,
                                  std::int64_t end_query);

}  // namespace tutti
