// `--strategy auto`: which mesh, for a given number of ranks.
#pragma once

#include "compiler/compile.h"

namespace tutti {

struct MeshChoice {
  Mesh mesh;
  bool split_all_weights = false;
  std::string explain;  // all candidates with their estimates, and why the chosen one won
};

// Distributes `whole` over every factorization of `options.auto_ranks` into the usual axes of the
// strategies (cfg, tp, cp, ..) and takes the one with the least estimated time among those that fit
// in `options.memory_limit`. Errors: RESOURCE_EXHAUSTED when none fits, with the bytes that the
// candidate which comes closest needs.
Result<MeshChoice> choose_mesh(const Graph& whole, const std::vector<std::string>& invariant_inputs,
                               const SymbolMap& sizes, const CompileOptions& options);

}  // namespace tutti
