#include "backends/cpu/courier.h"

#include <gtest/gtest.h>

#include <latch>

namespace tutti::cpu {
namespace {

TEST(FetchAhead, UsesEachAfterItHasCome) {
  Courier courier;
  std::vector<int> come(5);
  std::vector<std::size_t> used;
  const auto fetch = [&](std::size_t i) {
    come[i] = 1;
    return Status();
  };
  const auto use = [&](std::size_t i) {
    EXPECT_EQ(come[i], 1);
    used.push_back(i);
  };
  EXPECT_TRUE(fetch_ahead(courier, 5, fetch, use).ok());
  EXPECT_EQ(used, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(fetch_ahead(courier, 0, fetch, use).ok());
}

// Either would wait for ever if they took turns.
TEST(FetchAhead, FetchesTheNextWhileTheOneAtHandIsUsed) {
  Courier courier;
  std::latch both(2);
  const auto fetch = [&](std::size_t i) {
    if (i == 1) both.arrive_and_wait();
    return Status();
  };
  const auto use = [&](std::size_t i) {
    if (i == 0) both.arrive_and_wait();
  };
  EXPECT_TRUE(fetch_ahead(courier, 3, fetch, use).ok());
}

TEST(FetchAhead, UsesNothingAfterAFetchThatFailed) {
  Courier courier;
  for (const std::size_t bad : {0, 1, 3}) {
    std::size_t uses = 0;
    const auto fetch = [&](std::size_t i) {
      return i == bad ? invalid_argument("fetch ", i, " failed") : Status();
    };
    const Status status = fetch_ahead(courier, 4, fetch, [&](std::size_t) { ++uses; });
    EXPECT_EQ(status.message(), str_cat("fetch ", bad, " failed"));
    EXPECT_EQ(uses, bad);
    // The courier goes on.
    EXPECT_TRUE(fetch_ahead(
                    courier, 2, [](std::size_t) { return Status(); }, [](std::size_t) {})
                    .ok());
  }
}

}  // namespace
}  // namespace tutti::cpu
