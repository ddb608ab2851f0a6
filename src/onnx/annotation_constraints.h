// From ONNX's multi-device annotations to constraints on layouts over a mesh.
//
// ONNX numbers devices and says for each tensor of a node which of them hold which shard: shards
// are counted over the sharded dimensions in the order of the specification, the last one fastest
// (docs/proposals/ONNXMultiDeviceProposal.md in ONNX's repository). A mesh numbers ranks by its
// axes, the last one fastest. A specification fits a mesh when each sharded dimension follows mesh
// axes.
#pragma once

#include <vector>

#include "graph/layout.h"
#include "onnx/device_annotations.h"

namespace tutti {

// The mesh of the model's own configuration: a configuration that is called like a mesh of as many
// ranks ("cfg=2,cp=2") is that mesh; any other is one axis `device`. One rank when there is none.
// Errors: nodes that follow several configurations.
Result<Mesh> annotated_mesh(const DeviceAnnotations& annotations);

// Errors, which name node, tensor and both sides: another number of devices than `mesh` has ranks,
// more or fewer shards than devices, a device twice or not at all, two specifications of one tensor
// at one node that disagree, shards that follow no mesh axes.
Result<std::vector<LayoutConstraint>> layout_constraints(const DeviceAnnotations& annotations,
                                                         const Mesh& mesh);

}  // namespace tutti
