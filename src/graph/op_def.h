// What is known of an operator: form, shapes, layout rule, cost. One table, filled by src/ops.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/factor_map.h"
#include "graph/graph.h"

namespace tutti {

enum class AttributeKind {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kDims,  // a list of symbolic sizes (Shape)
  kTensor,
  kGraph,
};

struct AttributeSpec {
  std::string name = {};
  AttributeKind kind = AttributeKind::kInt;
  bool required = false;
};

inline constexpr int kVariadic = -1;

// One rank's piece of a node, for the attributes that depend on it.
struct NodePiece {
  const Shape& output;            // the piece of output 0
  std::vector<bool> is_windowed;  // dimensions of input 0 that come with the rows that the windows
                                  // of this piece reach into, edges included
};

struct OpDef {
  std::string type = {};    // "MatMul"
  std::string domain = {};  // "" where form and meaning are ONNX's, "ai.tutti" for our own
  int min_inputs = 1;
  int max_inputs = 1;   // kVariadic: any number from min_inputs
  int num_outputs = 1;  // kVariadic: the caller says
  std::vector<AttributeSpec> attributes = {};

  // Types of the outputs from those of the inputs and the attributes. Required. Checks everything
  // that could make a kernel fail: ranks, sizes that are constant and disagree, dtypes, axes.
  // The error starts with what is wrong; the caller puts the node in front.
  Result<std::vector<TensorType>> (*infer)(const Node& node, int num_outputs) = nullptr;

  // Elements of integer outputs from Value::symbolic of the inputs (constants of integer type have
  // it too); nullopt where unknown. Optional.
  std::optional<std::vector<Dim>> (*symbolic)(const Node& node) = nullptr;

  // The layout rule. Null: every dimension is needed whole (the node is computed on every rank).
  FactorMap (*factors)(const Node& node) = nullptr;

  // Attributes of a piece of the node. Null: the node's, with those that spell out the shape of
  // output 0 made that of its piece.
  AttributeMap (*piece_attributes)(const Node& node, const NodePiece& piece) = nullptr;

  // Floating-point operations as a function of the symbolic sizes. Null: pointwise cost, one an
  // output element.
  Dim (*flops)(const Node& node) = nullptr;

  // An element of the output depends on the same (broadcast) element of each input only. The fuse
  // pass merges such nodes into regions.
  bool is_pointwise = false;
  // The output is input 0 under another shape: no kernel, no memory.
  bool is_view = false;
  // Moves data between ranks; all ranks must call it in the same order.
  bool is_exchange = false;
};

class OpRegistry {
 public:
  // Adds a definition; the type must be new.
  void add(OpDef def);
  const OpDef* find(std::string_view type) const;  // null when unknown
  std::vector<const OpDef*> all() const;           // by type

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> defs_;
};

// Checks a node's attributes against its definition: kinds, required ones, unknown ones.
Status check_attributes(const OpDef& op, const AttributeMap& attributes);

}  // namespace tutti
