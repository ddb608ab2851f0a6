#include <gmock/gmock.h>

#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class FuseRegionTest : public CompilerTest {
 protected:
  std::unique_ptr<Graph> fused(std::string_view text) {
    auto graph = parse(text);
    const Status status = fuse_pointwise(*graph, options());
    EXPECT_TRUE(status.ok()) << status.to_string();
    return graph;
  }
};

using FuseLinearTest = CompilerTest;

TEST_F(FuseRegionTest, AChainBecomesOneNodeWithAScalarBody) {
  expect_pass(fuse_pointwise, R"(graph @g (%x: f32[n, 4], %y: f32[4]) {
    %two = constant f32[] [2.0]
    %a = Mul(%x, %two)
    %b = Add(%a, %y)
    %c = Silu(%b)
    return %c
  })",
              R"(graph @g (%x: f32[n, 4], %y: f32[4]) {
    %c = Pointwise(%x, %y) {body = graph (%v0: f32[], %v3: f32[]) {
      %v1 = constant f32[] [2.0]
      %v2 = Mul(%v0, %v1)
      %v4 = Add(%v2, %v3)
      %v5 = Silu(%v4)
      return %v5
    }}
    return %c
  })");
}

TEST_F(FuseRegionTest, ASingleNodeStaysWhatItIs) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[n, 4]) {
    %a = Exp(%x)
    return %a
  })";
  expect_pass(fuse_pointwise, kText, kText);
}

TEST_F(FuseRegionTest, ASmallerOperandIsComputedOnce) {
  const auto graph = fused(R"(graph @g (%x: f32[b, s, 4], %scale: f32[b, 1, 4]) {
    %one = constant f32[] [1.0]
    %plus = Add(%scale, %one)
    %m = Mul(%x, %plus)
    %y = Exp(%m)
    return %y
  })");
  EXPECT_EQ(count_nodes(*graph, "Add"), 1);
  EXPECT_EQ(count_nodes(*graph, "Pointwise"), 1);
  EXPECT_EQ(graph->nodes().size(), 2U);
}

TEST_F(FuseRegionTest, ResultsUsedElsewhereBecomeOutputsOfTheRegion) {
  const auto graph = fused(R"(graph @g (%x: f32[n, 4]) {
    %a = Exp(%x)
    %b = Abs(%a)
    %s = Softmax(%a) {axis = 1}
    return %b, %s
  })");
  const Node* region = find_node(*graph, "Pointwise");
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->outputs().size(), 2U);
}

TEST_F(FuseRegionTest, ARegionNeverWaitsForItself) {
  // a -> softmax -> c and a -> c: c may not join a's region.
  const auto graph = fused(R"(graph @g (%x: f32[n, 4]) {
    %a = Exp(%x)
    %s = Softmax(%a) {axis = 1}
    %c = Add(%a, %s)
    return %c
  })");
  EXPECT_TRUE(graph->verify().ok());
  EXPECT_EQ(count_nodes(*graph, "Pointwise"), 0);
  EXPECT_EQ(graph->nodes().size(), 3U);
}

TEST_F(FuseRegionTest, TwoRegionsThatNeedEachOtherInTurnsStayApart) {
  // p = {a, d}? d needs softmax(b), b is in the other region, which needs softmax(a).
  const auto graph = fused(R"(graph @g (%x: f32[n, 4], %y: f32[n, 4]) {
    %a = Exp(%x)
    %sa = Softmax(%a) {axis = 1}
    %b0 = Abs(%y)
    %b = Add(%b0, %sa)
    %sb = Softmax(%b0) {axis = 1}
    %d = Mul(%a, %sb)
    %e = Sub(%d, %b)
    return %e
  })");
  EXPECT_TRUE(graph->verify().ok()) << print(*graph);
}

TEST_F(FuseRegionTest, RegionsThatReadTheSameOperandsBecomeOne) {
  // The two halves of a rotary embedding.
  const auto graph = fused(R"(graph @g (%a: f32[n, 4], %b: f32[n, 4], %cos: f32[4], %sin: f32[4]) {
    %ac = Mul(%a, %cos)
    %bs = Mul(%b, %sin)
    %l = Sub(%ac, %bs)
    %bc = Mul(%b, %cos)
    %as = Mul(%a, %sin)
    %r = Add(%bc, %as)
    %y = Concat(%l, %r) {axis = 1}
    return %y
  })");
  ASSERT_EQ(count_nodes(*graph, "Pointwise"), 1);
  const Node* region = find_node(*graph, "Pointwise");
  EXPECT_EQ(region->inputs().size(), 4U);
  EXPECT_EQ(region->outputs().size(), 2U);
}

TEST_F(FuseRegionTest, ARegionHasAtMostSixteenInputs) {
  std::string text = "graph @g (%x0: f32[n]";
  for (int i = 1; i < 40; ++i) text += str_cat(", %x", i, ": f32[n]");
  text += ") {\n %s1 = Add(%x0, %x1)\n";
  for (int i = 2; i < 40; ++i) text += str_cat(" %s", i, " = Add(%s", i - 1, ", %x", i, ")\n");
  const auto graph = fused(text + " return %s39\n}");
  for (const auto& node : graph->nodes()) EXPECT_LE(node->inputs().size(), 16U);
  EXPECT_LE(graph->nodes().size(), 4U);
}

TEST_F(FuseRegionTest, FusedGraphsComputeTheSame) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[3, 4], %y: f32[4], %z: f32[3, 1]) {
    %two = constant f32[] [2.0]
    %a = Mul(%x, %two)
    %b = Add(%a, %y)
    %c = Silu(%b)
    %z1 = Exp(%z)
    %d = Mul(%c, %z1)
    %s = Softmax(%d) {axis = 1}
    %e = Sub(%s, %c)
    %f = Greater(%e, %a)
    %g = Where(%f, %e, %d)
    return %g, %b
  })";
  const NamedTensors inputs = {
      {"x", random_f32({3, 4}, 1)}, {"y", random_f32({4}, 2)}, {"z", random_f32({3, 1}, 3)}};
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*parse(kText), inputs, {});
  const auto found = interpreter.run_whole(*fused(kText), inputs, {});
  ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LE(relative_error((*found)[i], (*right)[i]), 1e-6);
}

TEST_F(FuseLinearTest, ProductBiasActivationAndResidualAreOneNode) {
  expect_pass(fuse_linear, R"(graph @g (%x: f32[b, s, 8], %r: f32[b, s, 16]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[16] data
    %p = MatMul(%x, %w)
    %q = Add(%bias, %p)
    %a = Gelu(%q) {approximate = "tanh"}
    %y = Add(%r, %a)
    return %y
  })",
              R"(graph @g (%x: f32[b, s, 8], %r: f32[b, s, 16]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[16] data
    %y = Linear(%x, %w, %bias, %r) {activation = "gelu_tanh"}
    return %y
  })");
}

TEST_F(FuseLinearTest, ATransposedWeightIsReadTransposed) {
  expect_pass(fuse_linear, R"(graph @g (%x: f32[b, 8]) {
    %w = constant f32[16, 8] data
    %t = Transpose(%w) {perm = [1, 0]}
    %p = MatMul(%x, %t)
    return %p
  })",
              R"(graph @g (%x: f32[b, 8]) {
    %w = constant f32[16, 8] data
    %p = Linear(%x, %w) {transpose_w = 1}
    return %p
  })");
}

TEST_F(FuseLinearTest, AResultWithTwoUsersKeepsItsOwnNode) {
  expect_pass(fuse_linear, R"(graph @g (%x: f32[b, 8]) {
    %w = constant f32[8, 8] data
    %p = MatMul(%x, %w)
    %a = Silu(%p)
    %y = Add(%a, %p)
    return %y
  })",
              R"(graph @g (%x: f32[b, 8]) {
    %w = constant f32[8, 8] data
    %p = Linear(%x, %w)
    %a = Silu(%p)
    %y = Add(%a, %p)
    return %y
  })");
}

TEST_F(FuseLinearTest, AProductThatIsCutApartBecomesAProductForEachPiece) {
  cpu::CpuEvaluator evaluator;
  CompileOptions folding = options();
  folding.evaluator = &evaluator;
  constexpr std::string_view kText = R"(graph @g (%x: f32[3, 8]) {
    %w = constant f32[8, 96] data
    %bias = constant f32[96] data
    %p = MatMul(%x, %w)
    %q = Add(%p, %bias)
    %a: f32[3, 64], %b: f32[3, 32] = Split(%q) {axis = 1, sizes = dims[64, 32]}
    %c = Concat(%b, %a) {axis = 1}
    return %c
  })";
  const auto graph = parse_model(kText);
  ASSERT_TRUE(split_products(*graph, folding).ok());
  EXPECT_EQ(count_nodes(*graph, "Split"), 0);
  EXPECT_EQ(count_nodes(*graph, "Slice"), 0) << "weights are cut at compile time";
  EXPECT_EQ(count_nodes(*graph, "MatMul"), 2);
  const NamedTensors inputs = {{"x", random_f32({3, 8}, 1)}};
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*parse_model(kText), inputs, {});
  const auto found = interpreter.run_whole(*graph, inputs, {});
  ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
  EXPECT_LE(relative_error((*found)[0], (*right)[0]), 1e-6);
}

TEST_F(FuseLinearTest, AProductOfTwoActivationsStays) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[b, 8], %y: f32[8, c]) {
    %e = Exp(%y)
    %p = MatMul(%x, %e)
    return %p
  })";
  expect_pass(fuse_linear, kText, kText);
}

TEST_F(FuseLinearTest, ABiasThatVariesAlongTokensIsAResidualOrNothing) {
  expect_pass(fuse_linear, R"(graph @g (%x: f32[b, s, 8]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[1, 4, 16] data
    %p = MatMul(%x, %w)
    %q = Add(%p, %bias)
    return %q
  })",
              R"(graph @g (%x: f32[b, s, 8]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[1, 4, 16] data
    %p = Linear(%x, %w)
    %q = Add(%p, %bias)
    return %q
  })");
}

}  // namespace
}  // namespace tutti
