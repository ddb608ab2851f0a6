// From the whole graph to the SPMD graph of all ranks.
#pragma once

#include "compiler/compile.h"

namespace tutti {

struct Distributed {
  std::unique_ptr<Graph> graph;
  LayoutTable layouts;  // of every value, along all mesh axes
  std::map<std::string, std::string, std::less<>> whole_names;  // of what each is a piece of
  std::vector<AttentionChoice> attentions;
};

// One mesh axis after the other, in the order of `distribution_order`: propagates layouts,
// partitions, merges exchanges and verifies the result against the rules. Each axis sees the graph
// that the one before left, exchanges and local sizes included, so that splits nest: heads that a
// tensor-parallel axis shares out are shared out again, within each of its ranks, by Ulysses.
// Reports these steps to `options.progress` as they end.
// Exchanges of what depends on `invariant` inputs alone are kept apart from the rest.
Result<Distributed> distribute(std::unique_ptr<Graph> whole, const CompileOptions& options,
                               const std::vector<std::string>& invariant);

}  // namespace tutti
