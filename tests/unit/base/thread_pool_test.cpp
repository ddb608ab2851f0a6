#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace tutti {
namespace {

TEST(ThreadPool, CoversEveryItemOnceWhateverTheSizes) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 100}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          EXPECT_GE(worker, 0);
          EXPECT_LT(worker, threads);
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (const auto& times : seen) ASSERT_EQ(times.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, TwoPiecesAtATimeHaveDifferentWorkers) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  for (int round = 0; round < 200; ++round) {
    pool.parallel_for(64, 1, [&](std::int64_t, std::int64_t, int worker) {
      EXPECT_EQ(inside[static_cast<std::size_t>(worker)]++, 0);
      --inside[static_cast<std::size_t>(worker)];
    });
  }
}

}  // namespace
}  // namespace tutti
