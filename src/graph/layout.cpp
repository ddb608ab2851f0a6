#include "graph/layout.h"

#include <algorithm>

namespace tutti {
namespace {

Dim piece_size(const Dim& size, const Split& split, const Mesh& mesh) {
  if (split.window) {
    return split.window->map.span(floor_div(split.window->rows, split.units) *
                                  piece_units(split, mesh));
  }
  return floor_div(size, split.units) * piece_units(split, mesh);
}

}  // namespace

Split segment_split(const Split& split, std::size_t index) {
  const Dim& size = split.segments[index];
  const Dim units = split.grains.empty() ? size : floor_div(size, split.grains[index]);
  return Split{split.dim, split.axis, units, 1};
}

Dim segment_piece(const Split& split, std::size_t index, const Mesh& mesh) {
  return piece_size(split.segments[index], segment_split(split, index), mesh);
}

Dim piece_units(const Split& split, const Mesh& mesh) {
  const int ranks = mesh.size(split.axis);
  const Dim rank = mesh.rank_symbol(split.axis);
  if (split.segments.empty()) return part(split.units * Dim(split.replicas), ranks, rank);
  Dim sum = 0;
  for (std::size_t i = 0; i < split.segments.size(); ++i) {
    sum = sum + segment_piece(split, i, mesh);
  }
  return sum;
}

const Split* Layout::on_axis(int axis) const {
  for (const Split& split : splits) {
    if (split.axis == axis) return &split;
  }
  return nullptr;
}

void Layout::set(Split split) {
  std::erase_if(splits, [&](const Split& old) { return old.axis == split.axis; });
  splits.push_back(std::move(split));
}

void Layout::remove_axis(int axis) {
  std::erase_if(splits, [axis](const Split& split) { return split.axis == axis; });
  std::erase(partial_axes, axis);
}

std::string Layout::to_string(const Shape& shape, const Mesh& mesh) const {
  std::string text;
  for (const int axis : partial_axes) {
    text += str_cat("sum(", mesh.axes()[static_cast<std::size_t>(axis)].name, ") ");
  }
  text += "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i].to_string();
    Dim size = shape[i];
    for (const Split& split : splits) {
      if (split.dim != static_cast<int>(i)) continue;
      text += str_cat("/", mesh.axes()[static_cast<std::size_t>(split.axis)].name);
      if (split.window) {
        text += str_cat("(windows of ", split.window->rows, ")");
      } else if (!split.segments.empty()) {
        text += "(";
        for (std::size_t s = 0; s < split.segments.size(); ++s) {
          text += str_cat(s == 0 ? "" : " | ", split.segments[s]);
          if (!split.grains.empty() && !split.grains[s].is(1)) {
            text += str_cat(" by ", split.grains[s]);
          }
        }
        text += ")";
      } else if (split.units != size || split.replicas != 1) {
        text += str_cat("(units ", split.units);
        if (split.replicas != 1) text += str_cat(", x", split.replicas);
        text += ")";
      }
      size = piece_size(size, split, mesh);
    }
  }
  return text + "]";
}

Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Shape local = shape;
  for (const Split& split : layout.splits) {
    Dim& dim = local[static_cast<std::size_t>(split.dim)];
    dim = piece_size(dim, split, mesh);
  }
  return local;
}

}  // namespace tutti
