// The text form of a graph, for people and tests; printing and parsing are inverse.
//
//   graph @name (%x: f32[batch, 16], %t: f32[1]) {
//     %w = constant f32[16, 4] data            // large constants print without their elements
//     %two = constant f32[] [2]
//     %y: f32[batch, 4] = MatMul(%x, %w)
//     %z: f32[batch, 2, 2] = Reshape(%y) {shape = dims[batch, 2, 2]}
//     return %z
//   }
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/op_def.h"

namespace tutti {

std::string print(const Graph& graph);

// Reads the text form. Types after ':' are checked against inference where written. `data`
// constants become zeros. Errors name line and column.
Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace tutti
