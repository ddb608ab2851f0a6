#include "server/trace/batch_queue.h"

#include <gtest/gtest.h>

#include <future>

namespace tutti::server {
namespace {

using std::chrono::hours;

TEST(BatchQueue, DropsWhatHasNoRoomAndNeverWaits) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::promise<void> entered;
  std::vector<int> seen;
  bool is_first = true;
  BatchQueue<int> queue({4, 2, hours(1)}, [&](const std::vector<int>& batch) {
    if (is_first) entered.set_value();
    is_first = false;
    open.wait();
    seen.insert(seen.end(), batch.begin(), batch.end());
  });
  EXPECT_TRUE(queue.put(0));
  EXPECT_TRUE(queue.put(1));
  entered.get_future().wait();  // both are being consumed, which takes its time
  for (int i = 2; i < 6; ++i) EXPECT_TRUE(queue.put(i));
  EXPECT_FALSE(queue.put(6));
  EXPECT_EQ(queue.dropped(), 1U);
  gate.set_value();
  queue.close();
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(BatchQueue, CountsWeights) {
  BatchQueue<int> queue({10, 100, hours(1)}, [](const std::vector<int>&) {});
  EXPECT_TRUE(queue.put(0, 6));
  EXPECT_FALSE(queue.put(1, 5));
  EXPECT_TRUE(queue.put(2, 4));
  EXPECT_EQ(queue.dropped(), 5U);
}

TEST(BatchQueue, HasRoomForWhatWeighsNothing) {
  std::vector<int> seen;
  BatchQueue<int> queue({2, 100, hours(1)}, [&](const std::vector<int>& batch) {
    seen.insert(seen.end(), batch.begin(), batch.end());
  });
  EXPECT_TRUE(queue.put(0, 2));
  EXPECT_FALSE(queue.put(1, 1));
  EXPECT_TRUE(queue.put(2, 0));
  queue.close();
  EXPECT_FALSE(queue.put(3, 0)) << "closed";
  EXPECT_EQ(seen, (std::vector<int>{0, 2}));
}

TEST(BatchQueue, ABatchHoldsNoMoreThanItsWeight) {
  std::vector<std::size_t> sizes;
  {
    BatchQueue<int> queue({100, 3, hours(1)},
                          [&](const std::vector<int>& batch) { sizes.push_back(batch.size()); });
    queue.close();
    EXPECT_FALSE(queue.put(1)) << "closed";
  }
  EXPECT_TRUE(sizes.empty());
  BatchQueue<int> queue({100, 3, std::chrono::milliseconds(1)},
                        [&](const std::vector<int>& batch) { sizes.push_back(batch.size()); });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(queue.put(i));
  queue.close();
  std::size_t all = 0;
  for (const std::size_t size : sizes) {
    EXPECT_LE(size, 3U);
    all += size;
  }
  EXPECT_EQ(all, 20U);
}

}  // namespace
}  // namespace tutti::server
