// Formulas from files that would overflow, trap or take all memory.
#include "graph/dim_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/dim.h"
#include "graph/type_limits.h"

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

// Formulas that a chain of nodes makes, each from the one before: they stop growing, and no type
// may hold them.
void expect_refused(const Dim& size) {
  const Status status = check_limits({DType::kFloat32, {4, size}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("dimension 1 has a size whose formula"));
  EXPECT_LT(status.message().size(), 1000U);
}

TEST(DimLimits, SquaringAgainAndAgainStopsGrowing) {
  Dim size = Dim::symbol("n");
  for (int i = 0; i < 60; ++i) size = size * size;
  expect_refused(size);
  Dim sum = Dim::symbol("n") + Dim::symbol("m") + 1;
  for (int i = 0; i < 60; ++i) sum = sum * sum;
  expect_refused(sum);
}

TEST(DimLimits, OperationsOnOperationsStopGrowing) {
  Dim larger = Dim::symbol("n");
  Dim halves = Dim::symbol("n");
  for (int i = 0; i < 60; ++i) {
    larger = max(larger + 1, larger * 2);
    halves = floor_div(halves, 2) + floor_div(halves, 3);
  }
  expect_refused(larger);
  expect_refused(halves);
}

TEST(DimLimits, ProductsOfManyTermsAreTooLarge) {
  Shape shape;
  for (int i = 0; i < 8; ++i) {
    Dim sum;
    for (int j = 0; j < 20; ++j) sum = sum + Dim::symbol(str_cat("a", i, "_", j));
    shape.push_back(sum);
  }
  EXPECT_TRUE(check_limits({DType::kFloat32, shape}).ok());
  expect_refused(product(shape));
}

TEST(DimLimits, WhatIsTooLargeIsNoSizeAndNoText) {
  EXPECT_FALSE(parse_dim(kTooLargeSize).ok());
  EXPECT_FALSE(Dim::symbol(kTooLargeSize).evaluate({{"n", 1}}).ok());
  expect_refused(Dim::symbol(std::string(kMaxSizeText + 1, 'a')));
}

TEST(DimLimits, ErrorsShowTheStartOfALongFormula) {
  const std::string message = parse_dim(std::string(100000, '(')).status().message();
  EXPECT_THAT(message,
              ::testing::HasSubstr("((...' has 100000 characters; expected at most 16384"));
  EXPECT_LT(message.size(), 500U);
}

TEST(TypeLimits, RefuseSizesThatNoTensorHas) {
  constexpr std::int64_t kMost = kMaxDimSize;
  EXPECT_TRUE(check_limits({DType::kUInt8, {kMost, Dim::symbol("n"), 0}}).ok());
  EXPECT_THAT(check_limits({DType::kUInt8, {kMost + 1}}).message(),
              ::testing::HasSubstr("has size 1099511627777; expected one in [0, 1099511627776]"));
  EXPECT_FALSE(check_limits({DType::kUInt8, {-1}}).ok());
  EXPECT_FALSE(check_limits({DType::kUInt8, {0, kMost, kMost}}).ok());
  EXPECT_EQ(check_limits({DType::kUInt8, Shape(33, Dim(1))}).message(),
            "has 33 dimensions; at most 32 are supported");
}

}  // namespace
}  // namespace tutti
