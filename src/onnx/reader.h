// Reads an ONNX model into a graph of core operators.
//
// Supported: ai.onnx opset 17 to 24, model-local functions (inlined), `If` with a condition that is
// constant after folding, external data (memory-mapped). What is not supported is an error that
// names the node, the operator, its domain and opset, and the nearest supported form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "base/tensor.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "onnx/device_annotations.h"
#include "ops/lowering.h"

namespace tutti {

inline constexpr int kMinOpset = 17;
inline constexpr int kMaxOpset = 24;

// What a model may ask of us at most. Models come from outside.
struct ReadLimits {
  std::int64_t max_file_bytes = (std::int64_t{1} << 31) - 1;  // protobuf's own limit
  std::int64_t max_nodes = std::int64_t{1} << 20;             // after functions are inlined
  int max_call_depth = 64;                                    // functions and branches
  // The opsets of ai.onnx to accept. Suites that run old test models widen this; meaning is only
  // promised within the defaults.
  int min_opset = kMinOpset;
  int max_opset = kMaxOpset;
};

struct ReadOptions {
  // Folds constants while reading; null: shape arithmetic over constants may stay unresolved.
  ConstantEvaluator* evaluator = nullptr;
  // Values for symbolic dimensions of inputs (`--bind-dim batch=2`). One that is in no input is an
  // error.
  SymbolMap bound_dims;
  // Inputs whose content is fixed at compile time (`--bind NAME=FILE.npy`); they become constants.
  // Symbols in their declared shapes are bound to the tensors' sizes.
  std::map<std::string, Tensor, std::less<>> bound_inputs;
  // Input name -> shape text such as "1, 16, 2*h, w", instead of what the model declares.
  std::map<std::string, std::string, std::less<>> input_shapes;
  ReadLimits limits;
  // Filled with the model's multi-device annotations (IR 11) when not null.
  DeviceAnnotations* annotations = nullptr;
};

// Graph inputs and outputs keep their names and order; inputs that are initialisers too become
// constants. Dead nodes are gone. `registry` must outlive the graph.
Result<std::unique_ptr<Graph>> read_onnx(const std::string& path, const OpRegistry& registry,
                                         const LoweringRegistry& lowerings,
                                         const ReadOptions& options = {});

// The same for a model in memory. `folder` is where external data lies; empty: none is allowed.
Result<std::unique_ptr<Graph>> read_onnx_bytes(std::span<const std::byte> bytes,
                                               const std::string& folder,
                                               const OpRegistry& registry,
                                               const LoweringRegistry& lowerings,
                                               const ReadOptions& options = {});

}  // namespace tutti
