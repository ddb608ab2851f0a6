// Which rows of an operand the rows of a result read: the geometry of windows along one dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/dim.h"

namespace tutti {

// What stands where a window reaches past the operand's first or last row.
enum class WindowEdge {
  kZero,
  kLowest,   // less than any number: what a maximum ignores
  kEdge,     // the nearest row
  kReflect,  // rows mirrored at the nearest one, which is not repeated
  kWrap,     // rows from the other end
};

// Row i of the result reads rows [i * stride + offset, i * stride + offset + extent) of the
// operand. A convolution: offset = -pads_begin, extent = dilation * (kernel - 1) + 1.
struct WindowMap {
  std::int64_t stride = 1;
  Dim offset = 0;
  std::int64_t extent = 1;
  WindowEdge edge = WindowEdge::kZero;

  bool operator==(const WindowMap&) const = default;

  // Rows that are laid out for `count` consecutive rows of the result: those that they read, and
  // for strides past the extent those up to the next window.
  Dim span(const Dim& count) const;
  // The result's rows are the operand's, maybe shifted, repeated or cut off at the ends.
  bool only_moves() const { return stride == 1 && extent == 1; }
};

// The row of an operand of `size` rows that stands at position `at`, which may be outside; -1 where
// none does: there a window reads the edge's number.
std::int64_t row_at(WindowEdge edge, std::int64_t at, std::int64_t size);

std::string_view window_edge_name(WindowEdge edge);  // "zero", "lowest", "edge", "reflect", "wrap"
std::optional<WindowEdge> parse_window_edge(std::string_view name);

}  // namespace tutti
