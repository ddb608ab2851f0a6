#include "graph/dim.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Dim sym(const char* name) { return Dim::symbol(name); }

TEST(Dim, EqualPolynomialsAreEqualHoweverTheyWereMade) {
  const Dim h = sym("h");
  const Dim w = sym("w");
  EXPECT_EQ((h + 1) * (w + 2), h * w + 2 * h + w + 2);
  EXPECT_EQ((h - h) * w, Dim(0));
  EXPECT_NE(h * w, h + w);
  EXPECT_TRUE((h - h + 3).is(3));
}

TEST(Dim, DividesExactlyWhereThePolynomialDoes) {
  const Dim t = sym("t");
  EXPECT_EQ(*exact_div(t * 512, Dim(64)), t * 8);
  EXPECT_EQ(*exact_div(t * 512, t), Dim(512));
  EXPECT_FALSE(exact_div(t * 512 + 1, Dim(2)));
  EXPECT_FALSE(exact_div(Dim(7), t));
  const Dim h = Dim::symbol("h");
  EXPECT_EQ(*exact_div(t * 4 - 2, t * 2 - 1), Dim(2));
  EXPECT_EQ(*exact_div(t * t - h * h, t + h), t - h);
  EXPECT_EQ(*exact_div((t * 2 + h + 3) * (t - h * t), t * 2 + h + 3), t - h * t);
  EXPECT_FALSE(exact_div(t * 4 - 1, t * 2 - 1));
  EXPECT_FALSE(exact_div(t, t + 1));
  EXPECT_EQ(floor_div(t * 4 + 3, 4), t);
  EXPECT_EQ(mod(t * 6, 3), Dim(0));
}

TEST(Dim, OpaqueOperationsEvaluateLikePython) {
  const Dim t = sym("t");
  const SymbolMap at{{"t", -7}};
  EXPECT_EQ(*floor_div(t, 2).evaluate(at), -4);
  EXPECT_EQ(*mod(t, 4).evaluate(at), 1);
  EXPECT_EQ(*ceil_div(t, 2).evaluate(at), -3);
  EXPECT_EQ(*max(t, 3).evaluate(at), 3);
  EXPECT_EQ(*(t * t - 1).evaluate(at), 48);
}

TEST(Dim, TextReadsBackAsTheSameDim) {
  const Dim h = sym("h");
  const Dim w = sym("w.1");
  const std::vector<Dim> dims{0,
                              -3,
                              h,
                              2 * h * w - 4 * h + 7,
                              floor_div(h + 1, 2) * w,
                              part(h * w, 4, sym("rank.cp")) * 64,
                              max(h, mod(w, 5)),
                              min(h, w) - h * h};
  for (const Dim& dim : dims) {
    const auto parsed = parse_dim(dim.to_string());
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, dim) << dim.to_string();
  }
}

TEST(Dim, ReadsWhatExportersWrite) {
  EXPECT_EQ(*parse_dim(" s0 // 2 "), floor_div(sym("s0"), 2));
  EXPECT_EQ(*parse_dim("2*(h + 1)"), 2 * sym("h") + 2);
  EXPECT_EQ(*parse_dim("FloorDiv(h, 4)"), floor_div(sym("h"), 4));
}

TEST(Dim, BadTextIsAnErrorThatNamesThePlace) {
  EXPECT_EQ(parse_dim("2*").status().message(),
            "size '2*': expected a number or a name at character 2");
  EXPECT_FALSE(parse_dim("h/0").ok());
  EXPECT_FALSE(parse_dim("mod(h, 0)").ok());
  EXPECT_FALSE(parse_dim("9999999999999999999").ok());
  EXPECT_FALSE(parse_dim(std::string(100000, '(')).ok());
  EXPECT_FALSE(parse_dim("part(h, 0, r)").ok());
}

TEST(Dim, EvaluationNamesWhatIsMissingAndCatchesOverflow) {
  EXPECT_EQ(sym("t").evaluate({}).status().message(), "size 't' is not bound");
  EXPECT_FALSE((sym("t") * sym("t")).evaluate({{"t", std::int64_t{1} << 40}}).ok());
}

TEST(Dim, SubstitutionFoldsWhatBecomesConstant) {
  const Dim t = sym("t");
  const Dim r = sym("rank.cp");
  EXPECT_TRUE(part(t, 4, r).substitute({{"t", 8}}).is(2));
  EXPECT_TRUE(part(t, 4, r).substitute({{"t", 9}, {"rank.cp", 0}}).is(3));
  EXPECT_EQ((t * r).substitute({{"t", 2}}), 2 * r);
}

TEST(Part, PiecesAreBalancedContiguousAndComplete) {
  for (std::int64_t units = 0; units < 40; ++units) {
    for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
      std::int64_t offset = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(part_offset(units, ranks, rank), offset);
        const std::int64_t size = part_size(units, ranks, rank);
        ASSERT_GE(size, units / ranks);
        ASSERT_LE(size, units / ranks + 1);
        offset += size;
      }
      ASSERT_EQ(offset, units);
    }
  }
}

}  // namespace
}  // namespace tutti
