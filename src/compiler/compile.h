// From a plain graph to one SPMD graph for all ranks of a mesh. pipeline.cpp lists the passes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/layout.h"
#include "graph/mesh.h"

namespace tutti {

// "Dimension `dim` of value `value` is split over mesh axis `axis`": where propagation starts.
struct LayoutSeed {
  std::string value;
  int dim = 0;
  std::string axis;
};

// "NAME:DIM=AXIS"; NAME may contain colons.
Result<LayoutSeed> parse_seed(std::string_view text);

// What layouts are priced with; device_profile.h has sets of them. Only ratios matter, and only
// where a node could work in more than one way. The defaults are an H200's.
struct CostRates {
  double flops_per_second = 5e14;
  double bytes_per_second = 3.6e11;         // that one rank sends
  double memory_bytes_per_second = 3.8e12;  // that one rank reads, of weights
  double seconds_per_exchange = 1e-5;
  // What a byte of memory at the peak is worth: 5e-13 takes ten exchanges more to save 200 MB.
  double seconds_per_byte_held = 5e-13;
};

// How an attention whose queries are split gets keys and values that are split, too. Heads: it gets
// whole tokens and a part of the heads instead. Gather: all keys and values, at once. Ring: all of
// them, one piece after the other.
enum class AttentionExchange { kAuto, kHeads, kGather, kRing };
Result<AttentionExchange> parse_attention_exchange(std::string_view text);  // "auto", "heads", ..

struct CompileOptions {
  const OpRegistry* registry = nullptr;    // required
  ConstantEvaluator* evaluator = nullptr;  // folds constants; optional
  Mesh mesh;
  // Mesh axis -> strategy: "tensor", "cfg", "ulysses" or "none". An axis that is not named here
  // takes "tensor" when it is called tp, "cfg" when cfg, "ulysses" when cp, and "none" otherwise.
  std::map<std::string, std::string> strategies;
  std::vector<LayoutSeed> seeds;  // go before those of the strategies
  // What annotations of the model demand. One that no rule allows is an error, unless the value is
  // no longer there when layouts are chosen.
  std::vector<LayoutConstraint> constraints;
  // Above 0: `mesh` is ignored, and the one of this many ranks that is estimated to be fastest is
  // taken, each axis with its usual strategy.
  int auto_ranks = 0;
  // Bytes that a rank may need at `typical_sizes`, weights and activations; 0: no limit.
  double memory_limit = 0;
  // Axes with the strategy "tensor" split every weight, also where that does not pay by itself. Set
  // by the compiler when the memory limit asks for it.
  bool split_all_weights = false;
  // Inputs that stay the same over many calls. Detected when empty and `detect_invariant_inputs`.
  std::vector<std::string> invariant_inputs;
  bool detect_invariant_inputs = true;
  // Auto and heads: by heads where every rank gets some, else what is cheapest.
  AttentionExchange attention_exchange = AttentionExchange::kAuto;
  // The 16-bit type that f32 weights and compute take (precision.h says what stays f32); undefined:
  // as the model has it. Inputs and outputs keep their types, unless io_precision says otherwise.
  DType precision = DType::kUndefined;
  DType io_precision = DType::kUndefined;
  bool hoist = true;
  bool fuse = true;  // pointwise regions and Linear
  // Sizes to price and report with. A symbol that is missing counts as 32, the batch size as 1.
  SymbolMap typical_sizes;
  CostRates rates;
  // After each pass: its name and how long it took.
  std::function<void(std::string_view pass, double seconds)> progress;
};

// A graph input or output, with its size as the caller sees it: whole.
struct GlobalTensor {
  std::string name;
  TensorType type;
};

// What a rank needs, at the typical sizes.
struct RankBytes {
  double weights = 0;      // constants and its pieces of those that ranks share, each once
  double activations = 0;  // at most alive at once, in the main graph or the prologue
  double prologue = 0;     // its results, kept for one content of the invariant inputs

  double total() const { return weights + activations + prologue; }
};

// One collective of the compiled graphs.
struct ExchangeInfo {
  std::string node;  // name of the node it serves
  std::string kind;  // AllToAll, AllGather, AllReduce, ReduceScatter
  std::string axis;
  std::vector<std::string> values;  // operands, by name in the graph
  Dim sent_bytes;                   // that a rank sends to others; over sizes and rank symbols
  bool in_prologue = false;
};

// How an attention's tokens, split along a mesh axis, meet: what `way` took, and what others move.
struct AttentionChoice {
  std::string node;
  std::string axis;
  // "heads" (tokens are exchanged for heads), "keys" (the queries stay), "sequences" (of the
  // batch), "whole" (every rank computes all of it) or "other".
  std::string way;
  bool has_whole_keys = false;           // they move for none of its ranks
  std::optional<double> bytes_by_heads;  // that all ranks send; none: heads run out
  double bytes_by_keys = 0;
};

struct CompiledModel {
  // Inputs: those of the model that it needs, and the prologue's outputs (same names). Every rank
  // gets whole inputs and has whole outputs. Shapes are local, over mesh.rank_symbol()s.
  std::unique_ptr<Graph> main;
  // Null when nothing is worth hoisting. Inputs: invariant ones only, but its shapes may use any
  // size symbol of the model's inputs, so a cached result is keyed by sizes and content.
  std::unique_ptr<Graph> prologue;
  Mesh mesh;
  std::vector<GlobalTensor> inputs;  // of the model, all of them, in order
  std::vector<GlobalTensor> outputs;
  std::vector<std::string> invariant_inputs;  // named or detected
  LayoutTable layouts;                        // of every value of both graphs
  std::vector<ExchangeInfo> exchanges;        // in execution order, the prologue's first
  std::vector<AttentionChoice> attentions;    // along axes with the strategy "ulysses"
  SymbolMap typical_sizes;                    // what the numbers in `explain` are for
  std::vector<RankBytes> memory;              // by rank
  std::string explain;                        // what --explain prints
};

// Errors: an unknown axis, strategy, seed or input name; a layout that no rule allows, a constraint
// that contradicts a rule or another one (the message names the node); RESOURCE_EXHAUSTED where a
// rank needs more than the memory limit (the message says which and how much).
Result<CompiledModel> compile(std::unique_ptr<Graph> graph, const CompileOptions& options);

}  // namespace tutti
