// Layouts as ONNX's own multi-device annotations.
#pragma once

#include "graph/layout.h"

namespace onnx {
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace tutti {

// The model's device configuration, called like the mesh. Nothing for one rank.
void mesh_to_proto(const Mesh& mesh, onnx::ModelProto* model);

// A sharding specification for every operand of `node` that is split. Partial sums, concatenated
// splits and pieces that are no whole number of ranks per unit have no form in ONNX and are left
// out.
void shardings_to_proto(const Node& node, const LayoutTable& layouts, const Mesh& mesh,
                        onnx::NodeProto* proto);

}  // namespace tutti
