#include "graph/layout.h"

#include <algorithm>

namespace tutti {

const Split* Layout::on_axis(int axis) const {
  for (const Split& split : splits) {
    if (split.axis == axis) return &split;
  }
  return nullptr;
}

const Split* Layout::on_dim(int dim) const {
  for (const Split& split : splits) {
    if (split.dim == dim) return &split;
  }
  return nullptr;
}

void Layout::set(Split split) {
  std::erase_if(splits, [&](const Split& old) { return old.axis == split.axis; });
  splits.push_back(std::move(split));
  std::sort(splits.begin(), splits.end(),
            [](const Split& a, const Split& b) { return a.axis < b.axis; });
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
    const Split* split = on_dim(static_cast<int>(i));
    if (split == nullptr) continue;
    text += str_cat("/", mesh.axes()[static_cast<std::size_t>(split->axis)].name);
    if (split->units != shape[i] || split->replicas != 1) {
      text += str_cat("(units ", split->units);
      if (split->replicas != 1) text += str_cat(", x", split->replicas);
      text += ")";
    }
  }
  return text + "]";
}

Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Shape local = shape;
  for (const Split& split : layout.splits) {
    Dim& dim = local[static_cast<std::size_t>(split.dim)];
    const Dim unit = floor_div(dim, split.units);
    dim = unit * part(split.units * Dim(split.replicas), mesh.size(split.axis),
                      mesh.rank_symbol(split.axis));
  }
  return local;
}

}  // namespace tutti
