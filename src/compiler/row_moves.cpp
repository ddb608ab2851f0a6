#include "compiler/row_moves.h"

#include "compiler/sharding.h"

namespace tutti {
namespace {

bool stay_inside(const SplitWindow& window) {
  if (!window.map.offset.is_constant() || window.map.offset.constant() < 0) return false;
  const Dim end =
      (window.rows - Dim(1)) * Dim(window.map.stride) + window.map.offset + Dim(window.map.extent);
  const Dim room = window.size - end;
  return room.is_constant() && room.constant() >= 0;
}

}  // namespace

std::optional<Split> windows_of_operand(const Node& node, const Split& windows) {
  if (node.type() != "Slice" && node.type() != "Pad") return std::nullopt;
  if (node.attr_ints("axes") != std::vector<std::int64_t>{windows.dim}) return std::nullopt;
  const auto dim = static_cast<std::size_t>(windows.dim);
  const FactorMap map = factors_of(node);
  const FactorWindow* moved = map.window_of(map.inputs[0][dim]);
  if (moved == nullptr || !moved->map.only_moves() || !stay_inside(*windows.window)) {
    return std::nullopt;
  }
  Split out = windows;
  out.window->size = node.input(0)->shape()[dim];
  out.window->map.offset = windows.window->map.offset + moved->map.offset;
  out.window->map.edge = moved->map.edge;
  return out;
}

}  // namespace tutti
