// The passes over one graph, each tested alone. pipeline.cpp puts them in order; the layout passes,
// which carry a sharding from one to the next, are in layout.h and partition.h.
#pragma once

#include "compiler/compile.h"

namespace tutti {

// Dead code, common subexpressions, nodes that change nothing, movements that merge into one. Runs
// until nothing changes.
Status simplify(Graph& graph, const CompileOptions& options);

// One round of merging nodes that compute the same. Returns how many went.
int eliminate_common_subexpressions(Graph& graph);

// x^2 -> mean -> + epsilon -> sqrt -> divide: RMSNormalization and LayerNormalization.
Status fuse_norm(Graph& graph, const CompileOptions& options);

// Instance norms between reshapes, with scale and bias behind them: GroupNorm.
Status fuse_group_norm(Graph& graph, const CompileOptions& options);

// First or last rows joined to a value -> Pad; zeros around a convolution's input -> its padding;
// rows cut off a convolution's result -> less of it.
Status fuse_pad(Graph& graph, const CompileOptions& options);

// Flipped, convolved by a fixed kernel and flipped again -> convolved by the flipped kernel.
Status cancel_flips(Graph& graph, const CompileOptions& options);

// Where a strategy splits space: norms and means over it -> sums and pointwise nodes; then what
// cuts or joins along the dimension that it splits -> Slices and Pads.
Status open_space(Graph& graph, const CompileOptions& options);

// x * sigmoid(x) -> Silu; both decompositions of GELU -> Gelu.
Status fuse_activation(Graph& graph, const CompileOptions& options);

// Scaled products around a Softmax -> Attention, with masks; expanded key/value heads go.
Status fuse_attention(Graph& graph, const CompileOptions& options);

// Rows and features that fill attentions up to some size and change nothing: they go.
Status trim_attention(Graph& graph, const CompileOptions& options);

// Expanded key/value heads that only show once the movements around an Attention are merged.
Status drop_head_repeats(Graph& graph, const CompileOptions& options);

// Moves head transposes past pointwise nodes, norms and slices, until they meet the Attention and
// become its layout "bshd".
Status sink_transposes(Graph& graph, const CompileOptions& options);
Status set_attention_layouts(Graph& graph, const CompileOptions& options);

// Moves reshapes of tokens to a grid behind the work on single rows that is left at the end, so
// that the ranks do it on their tokens.
Status sink_grids(Graph& graph, const CompileOptions& options);

// Where sequences are joined and one of them is all that is read in the end, the last layer works
// on its rows alone.
Status drop_unread_rows(Graph& graph, const CompileOptions& options);

// Where an attention reads sequences that were joined far in front of it, and some of them depend
// on `invariant` inputs alone: joins them right in front of it, so that work on those can be
// hoisted.
Status join_late(Graph& graph, const CompileOptions& options,
                 const std::vector<std::string>& invariant);

// Attention within groups of tokens, over keys that stay the same, where pieces of the tokens along
// the mesh axis are not whole groups -> attention of all tokens behind a mask.
Status join_groups(Graph& graph, const CompileOptions& options, int axis);

// A product whose columns are cut apart becomes several products.
Status split_products(Graph& graph, const CompileOptions& options);

// A product with the transposed table of a lookup (an output projection to the vocabulary that is
// tied to the embedding) reads the table itself.
Status tie_tables(Graph& graph, const CompileOptions& options);

// Lookups in a piece of a table's rows, as the partition makes them -> lookups of rows that are
// there, and zeros.
Status mask_lookups(Graph& graph, const CompileOptions& options);

// Where options.precision is set: f32 weights and compute -> that 16-bit type. precision.h says
// what stays. Weights are converted at once, on all cores, so half of them must fit in memory.
Status convert_precision(Graph& graph, const CompileOptions& options);

// Attention over keys and values that are gathered -> RingAttention over the pieces, where that is
// asked for, or where the memory that it saves is worth the time for its steps.
Status choose_rings(Graph& graph, const CompileOptions& options);

// Small AllReduces none of which needs another's sums -> one over their elements in a row.
Status merge_reductions(Graph& graph, const CompileOptions& options);

// MatMul with a fixed matrix, bias, activation, residual -> Linear.
Status fuse_linear(Graph& graph, const CompileOptions& options);

// Connected pointwise nodes over one iteration space -> Pointwise {body}.
Status fuse_pointwise(Graph& graph, const CompileOptions& options);

// A norm with pointwise nodes around it, and what cuts rows apart, turns halves and joins them
// (rotary embeddings, gates) -> Fused {body}.
Status fuse_rows(Graph& graph, const CompileOptions& options);

}  // namespace tutti
