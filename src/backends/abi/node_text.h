// One node as text, for the border to a plug-in: graph/printer.h's form of a graph that holds it
// alone.
#pragma once

#include <memory>
#include <string>

#include "graph/graph.h"
#include "graph/op_def.h"

namespace tutti::abi {

// Values keep their symbolic types and get names of their own; a value that stands in several
// operand places is one input. Constants are inputs: their elements travel beside the text.
std::string node_text(const Node& node);

// The graph with its one node. Errors: text that does not parse, other than one node.
Result<std::unique_ptr<Graph>> parse_node(std::string_view text, const OpRegistry& registry);

}  // namespace tutti::abi
