#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tutti {
namespace {

bool overlaps(const MemoryPlan& plan, const std::vector<BufferLifetime>& buffers, std::size_t i,
              std::size_t j) {
  const BufferLifetime& a = buffers[i];
  const BufferLifetime& b = buffers[j];
  const bool in_time = a.first <= b.last && b.first <= a.last;
  const bool in_space =
      plan.offsets[i] < plan.offsets[j] + b.bytes && plan.offsets[j] < plan.offsets[i] + a.bytes;
  return in_time && in_space;
}

TEST(MemoryPlan, NoBuffersTakeNoMemory) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

TEST(MemoryPlan, BuffersThatNeverMeetShareTheirBytes) {
  const std::vector<BufferLifetime> buffers = {{256, 0, 1}, {256, 2, 3}};
  const MemoryPlan plan = plan_memory(buffers);
  EXPECT_EQ(plan.bytes, 256U);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, BuffersThatMeetAtOneStepStandApart) {
  const std::vector<BufferLifetime> buffers = {{256, 0, 2}, {256, 2, 3}};
  const MemoryPlan plan = plan_memory(buffers);
  EXPECT_EQ(plan.bytes, 512U);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, OffsetsAreMultiplesOf256) {
  const std::vector<BufferLifetime> buffers = {{1, 0, 9}, {3, 0, 9}, {257, 0, 9}};
  const MemoryPlan plan = plan_memory(buffers);
  for (const std::size_t offset : plan.offsets) EXPECT_EQ(offset % 256, 0U);
  EXPECT_EQ(plan.bytes, 1024U);
}

TEST(MemoryPlan, EmptyBuffersTakeNoMemory) {
  const std::vector<BufferLifetime> buffers = {{0, 0, 9}, {64, 0, 9}, {0, 0, 9}};
  EXPECT_EQ(plan_memory(buffers).bytes, 256U);
}

TEST(MemoryPlan, AGapBetweenLongLivedBuffersIsReused) {
  // 1024 lives throughout, 512 and 512 one after the other, 256 beside the second.
  const std::vector<BufferLifetime> buffers = {{1024, 0, 9}, {512, 0, 4}, {512, 5, 9}, {256, 5, 9}};
  EXPECT_EQ(plan_memory(buffers).bytes, 1024U + 512U + 256U);
}

// A chain of layers: each step reads one buffer and writes the next. Two at a time are live.
TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<BufferLifetime> buffers;
  for (int step = 0; step < 50; ++step) buffers.push_back({4096, step, step + 1});
  EXPECT_EQ(plan_memory(buffers).bytes, 8192U);
}

TEST(MemoryPlan, RandomLifetimesNeverCollideAndStayNearTheLowerBound) {
  std::uint64_t state = 42;
  const auto next = [&state](std::uint64_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>((state >> 33) % bound);
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<BufferLifetime> buffers;
    for (int i = 0; i < 120; ++i) {
      const int first = next(100);
      buffers.push_back({static_cast<std::size_t>(next(5000)), first, first + next(12)});
    }
    const MemoryPlan plan = plan_memory(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        ASSERT_FALSE(overlaps(plan, buffers, i, j)) << i << " and " << j;
      }
    }
    EXPECT_GE(plan.bytes, memory_lower_bound(buffers));
    EXPECT_LE(static_cast<double>(plan.bytes),
              1.4 * static_cast<double>(memory_lower_bound(buffers)));
  }
}

TEST(MemoryPlan, TheLowerBoundIsTheLargestSumAliveAtOnce) {
  const std::vector<BufferLifetime> buffers = {{256, 0, 1}, {512, 1, 2}, {100, 3, 3}};
  EXPECT_EQ(memory_lower_bound(buffers), 768U);
}

}  // namespace
}  // namespace tutti
