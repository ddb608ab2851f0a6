#include "graph/window_map.h"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"zero", "lowest", "edge", "reflect", "wrap"};

}  // namespace

Dim WindowMap::span(const Dim& count) const {
  return count * Dim(stride) + Dim(std::max<std::int64_t>(extent - stride, 0));
}

std::int64_t row_at(WindowEdge edge, std::int64_t at, std::int64_t size) {
  if (at >= 0 && at < size) return at;
  if (size == 0) return -1;
  switch (edge) {
    case WindowEdge::kZero:
    case WindowEdge::kLowest: return -1;
    case WindowEdge::kEdge: return at < 0 ? 0 : size - 1;
    case WindowEdge::kWrap: return ((at % size) + size) % size;
    case WindowEdge::kReflect: break;
  }
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);
  const std::int64_t phase = ((at % period) + period) % period;
  return phase < size ? phase : period - phase;
}

std::string_view window_edge_name(WindowEdge edge) {
  return kNames[static_cast<std::size_t>(edge)];
}

std::optional<WindowEdge> parse_window_edge(std::string_view name) {
  const auto* const it = std::find(kNames.begin(), kNames.end(), name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<WindowEdge>(it - kNames.begin());
}

}  // namespace tutti
