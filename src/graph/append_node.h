// Adds a node that text or a file describes: checked like the builder's, but never folded, so that
// reading gives back exactly what was written.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace tutti {

// Appends a node and names its outputs, whose names must be free. Types come from inference.
// Errors (graph unchanged but for names used up): arity, attributes, what inference refuses, a name
// that is taken. They start with what is wrong; the caller puts the node in front.
Result<Node*> append_node(Graph* graph, const OpDef& op, std::string_view name,
                          std::vector<Value*> inputs, AttributeMap attributes,
                          const std::vector<std::string>& output_names);

}  // namespace tutti
