// Formulas from files that would overflow, trap or take all memory.
#include <gtest/gtest.h>

#include <string>

#include "graph/dim.h"

namespace tutti {
namespace {

TEST(DimLimits, TheLowestNumberNeverTraps) {
  const auto quotient = parse_dim("(-9223372036854775807-1)/(-1)");
  ASSERT_TRUE(quotient.ok());
  EXPECT_EQ(quotient->constant(), INT64_MAX);
  EXPECT_TRUE(parse_dim("(-9223372036854775807-1)%(-1)").ok());
  EXPECT_EQ(Dim(INT64_MIN), Dim(-INT64_MAX));
  EXPECT_TRUE(exact_div(Dim(INT64_MIN), Dim(-1)).has_value());
}

TEST(DimLimits, SumsAndProductsSaturate) {
  EXPECT_EQ((Dim(INT64_MAX) + Dim(INT64_MAX)).constant(), INT64_MAX);
  EXPECT_EQ((Dim(-INT64_MAX) - Dim(INT64_MAX)).constant(), -INT64_MAX);
  EXPECT_EQ((Dim(INT64_MAX) * Dim(-2)).constant(), -INT64_MAX);
}

TEST(DimLimits, FormulasWithTooManyTermsAreErrors) {
  std::string formula = "(a+b)";
  for (int i = 0; i < 100; ++i) formula += "*(x" + std::to_string(i) + "+y)";
  EXPECT_FALSE(parse_dim(formula).ok());
  EXPECT_FALSE(parse_dim(std::string(100000, '1')).ok());
}

}  // namespace
}  // namespace tutti
