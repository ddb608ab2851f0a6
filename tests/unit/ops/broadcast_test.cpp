#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lowering_bench.h"
#include "ops/common.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

const Dim b = Dim::symbol("b");
const Dim t = Dim::symbol("t");

std::string shape_of(const Shape& x, const Shape& y) {
  const Result<Shape> shape = broadcast_shapes(x, y);
  return shape.ok() ? str_cat(*shape) : shape.status().message();
}

TEST(BroadcastShapes, AlignsOnTheRight) {
  EXPECT_EQ(shape_of({b, t, 8}, {8}), "[b, t, 8]");
  EXPECT_EQ(shape_of({b, 1, 8}, {t, 1}), "[b, t, 8]");
  EXPECT_EQ(shape_of({}, {t}), "[t]");
}

TEST(BroadcastShapes, ASymbolAgainstANumberIsTakenForTheNumber) {
  EXPECT_EQ(shape_of({b, 4}, {3, 4}), "[3, 4]");
}

TEST(BroadcastShapes, WhatCannotBeShownEqualIsAnError) {
  EXPECT_THAT(shape_of({2}, {3}), HasSubstr("[2] and [3] do not broadcast: 2 against 3"));
  EXPECT_THAT(shape_of({b}, {t}), HasSubstr("only if b equals t"));
}

TEST(BroadcastFactors, BroadcastDimensionsHaveNoFactor) {
  LoweringBench bench;
  const Value* y = bench.one(
      "Add", {bench.input(DType::kFloat32, {b, t, 8}), bench.input(DType::kFloat32, {t, 1})});
  EXPECT_EQ(broadcast_factors(*y->producer()).to_string(), "(d0 d1 d2),(d1 1)->(d0 d1 d2)");
}

TEST(BroadcastFactors, ADimensionThatMayBeOneMakesItsFactorWhole) {
  LoweringBench bench;
  const Value* y = bench.one(
      "Add", {bench.input(DType::kFloat32, {b, 4}), bench.input(DType::kFloat32, {3, 4})});
  EXPECT_EQ(broadcast_factors(*y->producer()).to_string(), "(d0! d1),(d0! d1)->(d0! d1)");
}

std::string rule_of(const Value* value) {
  const Node& node = *value->producer();
  return node.op().factors(node).to_string();
}

TEST(LayoutRules, MovementKeepsWhatPassesThrough) {
  LoweringBench bench;
  Value* x = bench.input(DType::kFloat32, {b, t, 8});
  EXPECT_EQ(rule_of(bench.builder().transpose(x, {2, 0, 1})), "(d0 d1 d2)->(d2 d0 d1)");
  EXPECT_EQ(rule_of(bench.builder().slice(x, {2}, {0}, {4})),
            "(d0 d1 d2!)->(d0 d1 kept~) with d2 = kept | back");
  EXPECT_EQ(rule_of(bench.builder().op("Concat", {x, x}, {{"axis", std::int64_t{2}}})),
            "(d0 d1 i0!),(d0 d1 i1!)->(d0 d1 d2!) with d2 = i0 | i1");
  EXPECT_EQ(rule_of(bench.builder().op("Tile", {x}, {{"repeats", Shape{1, 2, 1}}})),
            "(d0 d1 d2)->(d0 (r1! d1) d2)");
  EXPECT_EQ(rule_of(bench.builder().expand(bench.input(DType::kFloat32, {b, 1, 8}), {b, t, 8})),
            "(d0 1 d2)->(d0 d1 d2)");
}

TEST(LayoutRules, GatherSplitsAlongItsIndices) {
  LoweringBench bench;
  Value* table = bench.input(DType::kFloat32, {1000, 64});
  Value* tokens = bench.input(DType::kInt64, {b, t});
  EXPECT_EQ(rule_of(bench.one("Gather", {table, tokens})), "(g! d2),(d0 d1)->(d0 d1 d2)");
}

TEST(LayoutRules, OnlySumsReduceOverASplit) {
  LoweringBench bench;
  Value* x = bench.input(DType::kFloat32, {b, t, 8});
  Value* axes = bench.ints({1});
  EXPECT_EQ(rule_of(bench.one("ReduceSum", {x, axes}, {{"keepdims", std::int64_t{0}}})),
            "(d0 d1+ d2)->(d0 d2)");
  EXPECT_EQ(rule_of(bench.one("ReduceMax", {x, axes})), "(d0 d1! d2)->(d0 1 d2)");
}

TEST(LayoutRules, ScanAndRankNeedTheirAxisWhole) {
  LoweringBench bench;
  Value* x = bench.input(DType::kFloat32, {b, t, 8});
  EXPECT_EQ(rule_of(bench.one("CumSum", {x, bench.ints({1})})), "(d0 d1! d2)->(d0 d1! d2)");
  EXPECT_EQ(
      rule_of(bench.one("ArgMax", {x}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}})),
      "(d0 d1 d2!)->(d0 d1)");
}

}  // namespace
}  // namespace tutti
