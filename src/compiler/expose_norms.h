// Norms over features that a tensor-parallel axis is about to split.
#pragma once

#include "compiler/compile.h"

namespace tutti {

// A norm over all features of queries or keys, between the product that makes them and the heads of
// an attention, is taken apart into its sum over squares (and over the features, for a layer norm)
// and pointwise work: pieces of the features then give partial sums of one number a token, and
// nothing has to be gathered. So is a norm over features that were multiplied with each other over
// pairs of tokens, one by one, in front of the product that sums over them. Sums are in f32, as in
// the norm's own kernel.
Status expose_norms(Graph& graph, const CompileOptions& options);

}  // namespace tutti
