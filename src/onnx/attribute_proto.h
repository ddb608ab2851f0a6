// AttributeProto to the graph's Attribute.
#pragma once

#include "base/status.h"
#include "graph/graph.h"
#include "onnx/external_data.h"

namespace onnx {
class AttributeProto;
}

namespace tutti {

// Numbers, text, their lists, and tensors. Graphs are the business of control flow; sparse tensors,
// types and lists of tensors have no use in inference graphs. Errors name the attribute.
Result<Attribute> attribute_from_proto(const onnx::AttributeProto& proto, ExternalFiles* files);

}  // namespace tutti
