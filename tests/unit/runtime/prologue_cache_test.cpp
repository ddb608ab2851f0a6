#include "runtime/prologue_cache.h"

#include <gtest/gtest.h>

#include "toy.h"

namespace tutti {
namespace {

Hash128 key(std::uint64_t n) { return {n, n}; }

TEST(PrologueCache, ReplacesWhatWasUsedLongestAgo) {
  PrologueCache cache(2);
  const auto fill = [&](std::uint64_t n) {
    const PrologueCache::Place place = cache.find_or_replace(key(n));
    if (!place.is_filled) cache.commit(place.slot);
    return place.is_filled;
  };
  EXPECT_FALSE(fill(1));
  EXPECT_FALSE(fill(2));
  EXPECT_TRUE(fill(1));
  EXPECT_FALSE(fill(3));  // takes the place of 2
  EXPECT_TRUE(fill(1));
  EXPECT_FALSE(fill(2));
  const PrologueStats stats = cache.stats();
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.misses, 4);
  EXPECT_EQ(stats.entries, 2);
  EXPECT_EQ(stats.capacity, 2);
}

TEST(PrologueCache, ASlotWithoutCommitHoldsNothing) {
  PrologueCache cache(1);
  EXPECT_FALSE(cache.find_or_replace(key(1)).is_filled);
  EXPECT_FALSE(cache.find_or_replace(key(1)).is_filled) << "the run for key 1 failed";
  EXPECT_EQ(cache.stats().entries, 0);
}

TEST(PrologueCache, ReplacingForgetsTheOldContentAtOnce) {
  PrologueCache cache(1);
  cache.commit(cache.find_or_replace(key(1)).slot);
  (void)cache.find_or_replace(key(2));  // fails before commit: the slot may be half written
  EXPECT_FALSE(cache.find_or_replace(key(1)).is_filled);
}

TEST(PrologueKeys, DependOnContentAndOnSizesThatThePrologueUses) {
  const Plan plan = toy::make_plan("cp=1");
  const PrologueKeys keys(plan);
  ASSERT_TRUE(keys.has_prologue());
  const auto key_for = [&](Dims x_dims, int x_seed, Dims text_dims, int text_seed) {
    const std::vector<Tensor> inputs = {toy::numbers(std::move(x_dims), x_seed),
                                        toy::numbers(std::move(text_dims), text_seed)};
    ShapeBindings bindings(plan);
    return keys.key_of(inputs, **bindings.find_or_bind(inputs));
  };
  const Hash128 base = key_for({1, 5, 3, 2}, 1, {1, 4}, 1);
  EXPECT_EQ(base, key_for({1, 5, 3, 2}, 2, {1, 4}, 1)) << "x is no business of the prologue";
  EXPECT_EQ(base, key_for({1, 5, 4, 2}, 1, {1, 4}, 1)) << "nor is the number of heads";
  EXPECT_FALSE(base == key_for({1, 5, 3, 2}, 1, {1, 4}, 2)) << "other text";
  EXPECT_FALSE(base == key_for({1, 6, 3, 2}, 1, {1, 4}, 1)) << "positions need the tokens";
}

}  // namespace
}  // namespace tutti
