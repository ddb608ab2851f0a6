// What a compiled model does, for people and for tools.
#pragma once

#include <string>

#include "compiler/compile.h"

namespace tutti {

// Every value with its layout, every exchange with its bytes, and totals. Bytes stand as formulas
// over sizes and rank coordinates, and as numbers for `sizes` (missing ones count as 32).
std::string explain_text(const CompiledModel& model, const SymbolMap& sizes);
std::string explain_json(const CompiledModel& model, const SymbolMap& sizes);

// 12.3 k, 4.56 M: three digits.
std::string human(double number);

// The exchanges of a compiled graph, in order.
std::vector<ExchangeInfo> list_exchanges(const Graph& graph, bool in_prologue);

// One graph in Graphviz's language: a box a node, exchanges in colour, edges with layouts.
std::string to_dot(const Graph& graph, const LayoutTable& layouts, const Mesh& mesh);

}  // namespace tutti
