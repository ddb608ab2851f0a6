#include "server/scheduler/rate_limiter.h"

#include <gmock/gmock.h>

#include <thread>

#include "server/scheduler/instance_claims.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

using Member = std::unique_ptr<RateLimiter::Member>;

Member join(RateLimiter& limiter, std::vector<ResourceClaim> claims, std::uint64_t priority = 1) {
  auto member = limiter.join(std::move(claims), priority);
  EXPECT_TRUE(member.ok()) << member.status().message();
  return *std::move(member);
}

std::vector<ResourceClaim> ranks(std::initializer_list<int> ids) {
  return instance_claims({}, std::vector<int>(ids), "cuda", {});
}

TEST(RateLimiter, SharedRanksAreTakenTogetherOrNotAtAll) {
  RateLimiter limiter;
  const Member a = join(limiter, ranks({0, 1})), b = join(limiter, ranks({1, 2})),
               c = join(limiter, ranks({2, 3}));
  ASSERT_TRUE(a->try_acquire());
  EXPECT_FALSE(b->try_acquire());
  EXPECT_TRUE(c->try_acquire());  // rank 2 was not held back by b's failed try
  a->release();
  EXPECT_FALSE(b->try_acquire());
  c->release();
  EXPECT_TRUE(b->try_acquire());
  b->release();
}

TEST(RateLimiter, DisjointRanksRunAtTheSameTimeAndOneRankShares) {
  RateLimiter limiter;
  const Member a = join(limiter, ranks({0, 1})), b = join(limiter, ranks({2, 3})),
               single = join(limiter, ranks({0}));
  EXPECT_TRUE(a->try_acquire());
  EXPECT_TRUE(b->try_acquire());
  EXPECT_TRUE(single->try_acquire());
  a->release();
  b->release();
  single->release();
}

TEST(RateLimiter, WhoWaitsIsServedBeforeThoseWhoComeLater) {
  RateLimiter limiter;
  const Member narrow = join(limiter, ranks({0, 1})), other = join(limiter, ranks({2, 3})),
               wide = join(limiter, ranks({0, 1, 2, 3}));
  ASSERT_TRUE(narrow->try_acquire());
  bool is_granted = false;
  std::thread waiting([&] { is_granted = wide->acquire({}); });
  // Once it is in line, its ranks are reserved even where they are free.
  while (other->try_acquire()) {
    other->release();
    std::this_thread::yield();
  }
  narrow->release();
  waiting.join();
  EXPECT_TRUE(is_granted);
  EXPECT_FALSE(other->try_acquire());
  wide->release();
  EXPECT_TRUE(other->try_acquire());
  other->release();
}

TEST(RateLimiter, StopEndsAWaitAndFreesWhatItReserved) {
  RateLimiter limiter;
  const Member a = join(limiter, ranks({0, 1})), b = join(limiter, ranks({0, 1, 2, 3}));
  const Member other = join(limiter, ranks({2, 3}));
  ASSERT_TRUE(a->try_acquire());
  std::stop_source stop;
  bool is_granted = true;
  std::thread waiting([&] { is_granted = b->acquire(stop.get_token()); });
  while (other->try_acquire()) {
    other->release();
    std::this_thread::yield();
  }
  stop.request_stop();
  waiting.join();
  EXPECT_FALSE(is_granted);
  EXPECT_TRUE(other->try_acquire());
  other->release();
  a->release();
}

TEST(RateLimiter, PriorityTwoGetsHalfTheTurns) {
  RateLimiter limiter;
  const Member first = join(limiter, ranks({0, 1}), 1), second = join(limiter, ranks({0, 1}), 1),
               seldom = join(limiter, ranks({0, 1}), 2);
  const Member gate = join(limiter, ranks({0, 1}));
  ASSERT_TRUE(gate->try_acquire());
  std::string turns;  // by who holds the ranks
  std::atomic<int> working{3};
  const auto work = [&](RateLimiter::Member& member, char name) {
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(member.acquire({}));
      turns += name;
      // Handed on when both others are in line: who follows is the limiter's choice.
      while (working == 3 && limiter.waiting() < 2) std::this_thread::yield();
      member.release();
    }
    --working;
  };
  std::thread a(work, std::ref(*first), 'a'), b(work, std::ref(*second), 'b'),
      c(work, std::ref(*seldom), 'c');
  while (limiter.waiting() < 3) std::this_thread::yield();
  gate->release();
  a.join();
  b.join();
  c.join();
  // Of 50 turns 20, 20 and 10.
  const auto seldom_turns = std::count(turns.begin(), turns.begin() + 50, 'c');
  EXPECT_GE(seldom_turns, 9) << turns;
  EXPECT_LE(seldom_turns, 11) << turns;
}

TEST(RateLimiter, OverlappingRingsOfClaimsNeverDeadlock) {
  RateLimiter limiter;
  std::vector<Member> members;
  for (int i = 0; i < 5; ++i) members.push_back(join(limiter, ranks({i, (i + 1) % 5})));
  std::atomic<int> holders[5] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 200; ++turn) {
        ASSERT_TRUE(members[static_cast<std::size_t>(i)]->acquire({}));
        EXPECT_EQ(holders[i]++, 0);
        EXPECT_EQ(holders[(i + 1) % 5]++, 0);
        --holders[i];
        --holders[(i + 1) % 5];
        members[static_cast<std::size_t>(i)]->release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RateLimiter, PoolsHoldTheLargestClaimOrWhatWasSaid) {
  RateLimiter limiter;
  const Member two = join(limiter, {{"R", 2}}), one = join(limiter, {{"R", 1}}),
               other = join(limiter, {{"R", 1}});
  EXPECT_TRUE(one->try_acquire());
  EXPECT_TRUE(other->try_acquire());
  EXPECT_FALSE(two->try_acquire());
  one->release();
  other->release();
  const auto refused = limiter.join({{"S", 3, 2}}, 1);
  EXPECT_THAT(refused.status().message(), HasSubstr("resource 'S' is limited to 2"));
}

TEST(RateLimitOptions, ResourcesAreReadAndChecked) {
  RateLimitOptions options;
  ASSERT_TRUE(options.add_resource("R1:3").ok());
  ASSERT_TRUE(options.add_resource("R1:5:1").ok());
  EXPECT_EQ(options.find("R1", 0), 3U);
  EXPECT_EQ(options.find("R1", 1), 5U);
  EXPECT_EQ(options.find("R2", 1), std::nullopt);
  for (const char* bad : {"", "R1", ":1", "R1:", "R1:0", "R1:x", "R1:1:", "R1:1:-1", "R1:1:1:1"}) {
    EXPECT_EQ(options.add_resource(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(InstanceClaims, ResourcesCountForEachDeviceOrOnce) {
  inference::ModelRateLimiter limiter;
  auto* resource = limiter.add_resources();
  resource->set_name("R1");
  resource->set_count(4);
  auto* global = limiter.add_resources();
  global->set_name("R2");
  global->set_global(true);
  global->set_count(2);
  RateLimitOptions options;
  EXPECT_TRUE(instance_claims(limiter, {0}, "cuda", options).empty());  // off
  options.counts_executions = true;
  std::vector<std::string> names;
  for (const ResourceClaim& claim : instance_claims(limiter, {0, 1, 0}, "cuda", options)) {
    names.push_back(str_cat(claim.pool, "=", claim.count));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("rank cuda:0=1", "rank cuda:1=1", "R1 of cuda:0=4",
                                            "R1 of cuda:1=4", "R2 (global)=2"));
}

}  // namespace
}  // namespace tutti::server
