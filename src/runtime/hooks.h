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
  // False: before_node() is not wanted, and ranks may repeat what they recorded.
  virtual bool watches_nodes() const { return true; }
  // Before a rank repeats a recording.
  virtual Status before_replay(int /*rank*/) { return {}; }
};

}  // namespace tutti
