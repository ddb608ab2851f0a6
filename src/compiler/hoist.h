// Splits an SPMD graph into what depends on inputs that stay the same over many calls, and the
// rest.
#pragma once

#include <set>

#include "compiler/compile.h"

namespace tutti {

// Named in the options; or else, where the model has an Attention whose tokens come from an input:
// inputs that do not (through any path of dimensions) shape those tokens, and that hold more than
// one number a batch element. Text embeddings are invariant; latents and time steps are not.
std::vector<std::string> invariant_inputs(const Graph& whole, const CompileOptions& options);

// Values that depend on an input which changes from call to call.
std::set<const Value*> varying_values(const Graph& graph,
                                      const std::vector<std::string>& invariant);

struct Hoisted {
  std::unique_ptr<Graph> main;
  std::unique_ptr<Graph> prologue;  // null when there is nothing worth keeping
};

// Values that depend on nothing but constants and `invariant` go to the prologue when real work or
// an exchange stands behind them, or when they depend on no input at all. They become inputs of
// main under their names. Exchanges may be in either graph.
Result<Hoisted> hoist(const Graph& graph, const std::vector<std::string>& invariant);

}  // namespace tutti
