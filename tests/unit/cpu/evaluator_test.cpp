#include "backends/cpu/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core_runner.h"

namespace tutti::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EvaluatorTest : public ::testing::Test {
 protected:
  CpuEvaluator evaluator_{2};
  Graph graph_;
  GraphBuilder builder_{&graph_, &core_ops(), &evaluator_};
};

TEST_F(EvaluatorTest, NodesOverConstantsFoldWhenTheyAreBuilt) {
  Value* x = builder_.constant(floats({2, 2}, {1, 2, 3, 4}));
  Value* y = builder_.op("Mul", {builder_.transpose(x, {1, 0}), x});
  ASSERT_TRUE(builder_.status().ok()) << builder_.status().to_string();
  ASSERT_TRUE(y->is_constant());
  EXPECT_THAT(y->constant().to_doubles(), ElementsAre(1, 6, 6, 16));
  EXPECT_TRUE(graph_.nodes().empty());
}

TEST_F(EvaluatorTest, ViewsShareTheStorage) {
  Value* x = builder_.constant(counting({2, 3}));
  Value* y = builder_.reshape(x, {3, 2});
  ASSERT_TRUE(y->is_constant());
  EXPECT_EQ(y->constant().data(), x->constant().data());
  EXPECT_EQ(y->constant().dims(), (Dims{3, 2}));
}

TEST_F(EvaluatorTest, AllOutputsOfANodeFold) {
  Value* x = builder_.constant(floats({4}, {3, 9, 1, 5}));
  const std::vector<Value*> top =
      builder_.ops("TopK", {x}, {{"axis", std::int64_t{0}}, {"k", Shape{2}}}, 2);
  ASSERT_TRUE(top[0]->is_constant() && top[1]->is_constant());
  EXPECT_THAT(top[0]->constant().to_doubles(), ElementsAre(9, 5));
  EXPECT_THAT(top[1]->constant().to_ints(), ElementsAre(1, 3));
}

TEST_F(EvaluatorTest, SymbolicSizesDoNotFold) {
  Value* x = builder_.constant(floats({1}, {1}));
  Value* y = builder_.expand(x, {Dim::symbol("n")});
  ASSERT_TRUE(builder_.status().ok());
  EXPECT_FALSE(y->is_constant());
}

TEST_F(EvaluatorTest, ConstantsGrowOnlySoMuchInAll) {
  CpuEvaluator evaluator(1, 100000);
  GraphBuilder builder(&graph_, &core_ops(), &evaluator);
  Value* one = builder.constant(floats({1}, {1}));
  EXPECT_TRUE(builder.expand(one, {16384})->is_constant());  // 64 KiB of 4 bytes
  Value* second = builder.expand(one, {16384});
  EXPECT_FALSE(second->is_constant());
  EXPECT_THAT(evaluator.evaluate(*second->producer()).status().message(),
              HasSubstr("65536 bytes of 4; constants may grow by 34468 bytes more"));
  // What grows little, or not at all, folds on.
  EXPECT_TRUE(builder.expand(one, {16})->is_constant());
  Value* large = builder.constant(counting({100, 1000}));
  EXPECT_TRUE(builder.transpose(large, {1, 0})->is_constant());
}

TEST_F(EvaluatorTest, WhatAKernelRefusesStaysInTheGraphAndNamesTheNode) {
  Value* data = builder_.constant(counting({3, 2}));
  Value* indices = builder_.constant(ints({1, 1}, {7}));
  Value* y = builder_.op("GatherND", {data, indices});
  ASSERT_TRUE(builder_.status().ok());
  ASSERT_NE(y->producer(), nullptr);
  const auto result = evaluator_.evaluate(*y->producer());
  EXPECT_THAT(result.status().message(), HasSubstr("GatherND"));
  EXPECT_THAT(result.status().message(), HasSubstr("index 7 is not in [-3, 3)"));
}

}  // namespace
}  // namespace tutti::cpu
