// Where buffers of known size and lifetime lie in one arena.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

// A buffer of `bytes` that must keep its content from step `first` to step `last`, both included.
// A node's outputs live from the node's own step, its inputs up to it, so that they never overlap.
struct BufferLifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one a buffer, multiples of 256; 0 for empty buffers
  std::size_t bytes = 0;             // size of the arena: the peak
};

// Greedy: large buffers first, each into the tightest gap that is free during its whole lifetime.
// A pure function of its input, so all ranks that ask the same get the same answer.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers);

// What no arena can go below: the largest sum of bytes (each rounded up to 256) alive at one step.
std::size_t memory_lower_bound(std::span<const BufferLifetime> buffers);

}  // namespace tutti
