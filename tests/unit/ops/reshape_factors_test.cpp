#include <gtest/gtest.h>

#include "ops/movement.h"

namespace tutti {
namespace {

const Dim b = Dim::symbol("b");
const Dim t = Dim::symbol("t");
const Dim h = Dim::symbol("h");
const Dim w = Dim::symbol("w");

std::string rule(const Shape& from, const Shape& to) {
  return reshape_factors(from, to).to_string();
}

// Every dimension must be the product of its factors' sizes.
void expect_consistent(const Shape& from, const Shape& to) {
  const FactorMap map = reshape_factors(from, to);
  const auto check = [&](const DimFactors& rows, const Shape& shape) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Dim size = 1;
      for (const int factor : rows[d]) {
        size = size * map.factors[static_cast<std::size_t>(factor)].size;
      }
      EXPECT_EQ(size, shape[d]) << str_cat(from, " to ", to, " at ", d);
    }
  };
  check(map.inputs[0], from);
  check(map.outputs[0], to);
}

TEST(ReshapeFactors, SplittingAWidthIntoHeads) {
  EXPECT_EQ(rule({t, 512}, {t, 8, 64}), "(f0 (f1 f2))->(f0 f1 f2)");
}

TEST(ReshapeFactors, MergingHeadsBack) {
  EXPECT_EQ(rule({b, t, 8, 64}, {b, t, 512}), "(f0 f1 f2 f3)->(f0 f1 (f2 f3))");
}

TEST(ReshapeFactors, SymbolicProductsDivide) {
  EXPECT_EQ(rule({b, h * w, 4}, {b, h, w, 4}), "(f0 (f1 f2) f3)->(f0 f1 f2 f3)");
  EXPECT_EQ(rule({Dim(2) * b, t}, {2, b, t}), "((f0 f1) f2)->(f0 f1 f2)");
}

TEST(ReshapeFactors, SizesOfOneHaveNoFactor) {
  EXPECT_EQ(rule({b, 1, t}, {b, t, 1, 1}), "(f0 1 f1)->(f0 f1 1 1)");
  EXPECT_EQ(rule({1}, {}), "(1)->()");
}

TEST(ReshapeFactors, PartlyCommonSizesShareTheirMajorPart) {
  // 6 = 2*3 and 4 = 2*2 agree on the first half only.
  EXPECT_EQ(rule({6, 4}, {4, 6}), "((f0 x0!) x1!)->((f0 y0!) y1!)");
}

TEST(ReshapeFactors, WhatDoesNotRefineIsWholeAndTheRestGoesOn) {
  EXPECT_EQ(rule({3, 5, t}, {5, 3, t}), "(x0! x1! f4)->(y0! y1! f4)");
  EXPECT_EQ(rule({t + 1, 4, b}, {4, t + 1, b}), "(x0! x1! f4)->(y0! y1! f4)");
}

TEST(ReshapeFactors, EmptyTensorsHaveNothingToSplit) {
  expect_consistent({0, 4}, {0, 8});
  EXPECT_EQ(rule({0, 4}, {0, 8}).find("f0"), std::string::npos);
}

TEST(ReshapeFactors, SizesOfFactorsMultiplyToTheDimensions) {
  expect_consistent({t, 512}, {t, 8, 64});
  expect_consistent({6, 4}, {4, 6});
  expect_consistent({12, t}, {3, 4, t});
  expect_consistent({2, 3, 4, 5}, {4, 30});
  expect_consistent({30, 4}, {20, 6});
  expect_consistent({b, 16, h, 2, w, 2}, {b, 16, Dim(2) * h, Dim(2) * w});
}

}  // namespace
}  // namespace tutti
