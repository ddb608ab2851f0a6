#include "plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tutti {
namespace {

// What device libraries ask of their workspaces (cuBLASLt refuses less).
constexpr std::size_t kAlignment = 256;

std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool live_together(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);

  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });

  std::vector<std::size_t> placed;  // indexes, by offset
  placed.reserve(buffers.size());
  for (const std::size_t index : order) {
    const std::size_t size = align_up(buffers[index].bytes);
    if (size == 0) continue;
    bool found = false;
    std::size_t best_offset = 0;
    std::size_t best_gap = 0;
    std::size_t end = 0;  // of everything live so far along the offsets
    for (const std::size_t other : placed) {
      if (!live_together(buffers[index], buffers[other])) continue;
      const std::size_t offset = plan.offsets[other];
      if (offset > end) {
        const std::size_t gap = offset - end;
        if (gap >= size && (!found || gap < best_gap)) {
          found = true;
          best_gap = gap;
          best_offset = end;
        }
      }
      end = std::max(end, offset + align_up(buffers[other].bytes));
    }
    const std::size_t offset = found ? best_offset : end;
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](std::size_t value, std::size_t other) { return value < plan.offsets[other]; });
    placed.insert(position, index);
  }
  return plan;
}

std::size_t memory_lower_bound(std::span<const BufferLifetime> buffers) {
  std::map<long, std::size_t> starts;
  std::map<long, std::size_t> ends;
  for (const BufferLifetime& buffer : buffers) {
    if (buffer.last < buffer.first) continue;
    starts[buffer.first] += align_up(buffer.bytes);
    ends[static_cast<long>(buffer.last) + 1] += align_up(buffer.bytes);
    starts[static_cast<long>(buffer.last) + 1] += 0;
  }
  std::size_t live = 0;
  std::size_t peak = 0;
  for (const auto& [step, bytes] : starts) {
    live += bytes;
    if (const auto end = ends.find(step); end != ends.end()) live -= end->second;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace tutti
