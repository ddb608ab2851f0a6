// Which keys a constant mask opens.
#include "compiler/open_keys.h"

#include "base/str_cat.h"
#include "compiler_fixture.h"

namespace tutti {
namespace {

class OpenKeysTest : public CompilerTest {
 protected:
  // Of 3 queries and 4 keys, those asked being [first, end).
  std::optional<OpenKeys> found(const std::string& mask, std::int64_t first, std::int64_t end,
                                int is_causal = 0) {
    graph_ =
        parse(str_cat("graph @g (%q: f32[1, 3, 2, 4], %k: f32[1, 4, 2, 4]) {\n  %m = ", mask, R"(
  %y = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = )",
                      is_causal, R"(, layout = "bshd"}
  return %y
})"));
    return open_keys(*find_node(*graph_, "Attention"), first, end);
  }

  std::unique_ptr<Graph> graph_;
};

TEST_F(OpenKeysTest, FromTheFirstToTheLastOfAnyQueryThatIsAsked) {
  const std::string mask =
      "constant bool[3, 4] [false, true, false, false, false, false, true, false, true, true, "
      "true, true]";
  const auto two = found(mask, 0, 2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->first, 1);
  EXPECT_EQ(two->end, 3);
  EXPECT_FALSE(two->are_all_open);
  const auto one = found(mask, 1, 2);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->first, 2);
  EXPECT_EQ(one->end, 3);
  EXPECT_TRUE(one->are_all_open);
  const auto all = found(mask, 0, 3);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->first, 0);
  EXPECT_EQ(all->end, 4);
}

TEST_F(OpenKeysTest, HeadsAndBatchElementsCountTogether) {
  const auto heads =
      found("constant bool[2, 1, 4] [true, true, false, false, false, true, true, false]", 0, 3);
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->end, 3);
  EXPECT_FALSE(heads->are_all_open);
}

TEST_F(OpenKeysTest, OnlyMinusInfinityClosesAmongNumbers) {
  const auto closed = found("constant f32[1, 4] [-inf, 0.0, 0.0, -inf]", 0, 3);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->first, 1);
  EXPECT_EQ(closed->end, 3);
  EXPECT_TRUE(closed->are_all_open);
  const auto low = found("constant f32[1, 4] [-10000.0, 0.0, 0.0, 0.0]", 0, 3);
  ASSERT_TRUE(low);
  EXPECT_EQ(low->first, 0);
  EXPECT_FALSE(low->are_all_open);
}

TEST_F(OpenKeysTest, NothingIsSaidOfOtherMasks) {
  EXPECT_FALSE(found("constant bool[3, 1] [true, false, true]", 0, 3));  // for all keys alike
  EXPECT_FALSE(found("constant bool[1, 4] [false, false, false, false]", 0, 3));  // all are closed
  EXPECT_FALSE(found("constant bool[1, 4] [true, true, true, false]", 0, 3, 1));
}

}  // namespace
}  // namespace tutti
