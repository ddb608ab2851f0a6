// Named axes of ranks, such as cfg=2,cp=4: 8 ranks. The last axis varies fastest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/dim.h"

namespace tutti {

struct MeshAxis {
  std::string name;
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank, no axes
  // Names must be identifiers, distinct; sizes >= 1; at most 1024 ranks.
  static Result<Mesh> create(std::vector<MeshAxis> axes);
  static Result<Mesh> parse(std::string_view text);  // "cfg=2,cp=4"; "" is one rank

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int num_ranks() const;
  int find(std::string_view name) const;  // index of the axis, -1 when absent
  int size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  int coordinate(int rank, int axis) const;
  // The ranks that differ from `rank` along `axis` only, in order of that coordinate.
  std::vector<int> peers(int rank, int axis) const;

  // "rank.cp": the symbol that stands for the coordinate along an axis in Dims.
  Dim rank_symbol(int axis) const;
  // Binds all rank symbols.
  void bind(int rank, SymbolMap* symbols) const;

  std::string to_string() const;
  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace tutti
