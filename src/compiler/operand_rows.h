// Which rows of its operands a node needs for some rows of its results.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace tutti {

// Rows [start, end) of one dimension.
struct Rows {
  int dim = 0;
  Dim start = 0;
  Dim end = 0;
  bool operator==(const Rows&) const = default;
};

bool is_nothing(const Rows& rows);

// Both, and what lies between them; nullopt: sizes leave open what that is.
std::optional<Rows> hull(const Rows& a, const Rows& b);

using OperandRows = std::vector<std::optional<Rows>>;  // by operand; none: all of it

// It computes each row by itself, at some cost.
bool is_work_on_rows(const Node& node);

// A Concat along this dimension.
bool joins(const Node& node, int dim);

// Of what a Concat joins, some may be needed not at all. nullopt: the node needs all of its
// operands.
std::optional<OperandRows> rows_of_operands(const Node& node, std::size_t output, const Rows& rows);

}  // namespace tutti
