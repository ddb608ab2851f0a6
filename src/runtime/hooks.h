// What may watch or disturb a rank while it runs: tests inject failures here.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace tutti {

// Called from the ranks' threads, several at a time. May block, throw or return an error: the rank
// then stalls or fails as if a kernel had.
class RankHooks {
 public:
  virtual ~RankHooks() = default;
  virtual Status before_node(int rank, const Node& node) = 0;
};

}  // namespace tutti
