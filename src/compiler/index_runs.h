// Indexes that are known, read as rows along axes and as runs of neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace tutti {

using Rows = std::vector<std::int64_t>;

// Rows first, first + 1, .., first + count - 1, which stand at `place` of the list on.
struct IndexRun {
  Dim first = 0;
  Dim place = 0;
  Dim count = 0;
};
std::vector<IndexRun> runs_of(const Rows& rows);

// Indexes that count upwards by one from a known size, as an exporter writes arange(t, t + s).
std::optional<IndexRun> counted_run(const Value& indices);

// Adds `size` to negative rows. nullopt: a row outside [-size, size), or a negative one of a size
// that is not known.
std::optional<Rows> normalized_rows(Rows rows, const Dim& size);

// The elements of a constant of any integer type, flat; nullopt for other values.
std::optional<Rows> constant_rows(const Value& indices);

// Constant indexes of GatherElements or ScatterElements whose elements differ along `axis` only:
// one row for each position of it.
std::optional<Rows> rows_along(const Value& indices, std::size_t axis);
// The operand of an Expand that repeats it along all axes but this one; null for other values.
const Value* row_before_expand(const Value& indices, std::size_t axis);

// Coordinates [.., depth], as GatherND and ScatterND take them, that enumerate the product of one
// list of rows for each axis in row-major order: these lists.
std::optional<std::vector<Rows>> rows_by_axis(const Value& coordinates);

// The elements of a constant of booleans that differ along one axis only.
struct AxisMask {
  std::size_t axis = 0;  // 0 when all elements are equal
  std::vector<bool> rows;
};
std::optional<AxisMask> axis_mask(const Value& mask);

}  // namespace tutti
