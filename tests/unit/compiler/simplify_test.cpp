#include "compiler_fixture.h"

namespace tutti {
namespace {

using SimplifyTest = CompilerTest;

TEST_F(SimplifyTest, NodesThatNoOutputNeedsGo) {
  expect_pass(simplify, R"(graph @g (%x: f32[n, 4]) {
    %a = Exp(%x)
    %b = Abs(%x)
    return %a
  })",
              R"(graph @g (%x: f32[n, 4]) {
    %a = Exp(%x)
    return %a
  })");
}

TEST_F(SimplifyTest, EqualNodesAndConstantsMerge) {
  expect_pass(simplify, R"(graph @g (%x: f32[n, 4]) {
    %two = constant f32[] [2.0]
    %zwei = constant f32[] [2.0]
    %a = Mul(%x, %two)
    %b = Mul(%x, %zwei)
    %c = Add(%a, %b)
    return %c
  })",
              R"(graph @g (%x: f32[n, 4]) {
    %two = constant f32[] [2.0]
    %a = Mul(%x, %two)
    %c = Add(%a, %a)
    return %c
  })");
}

TEST_F(SimplifyTest, NodesThatDifferInAnAttributeStay) {
  expect_pass(simplify, R"(graph @g (%x: f32[n, 4]) {
    %a = Softmax(%x) {axis = 0}
    %b = Softmax(%x) {axis = 1}
    %c = Add(%a, %b)
    return %c
  })",
              R"(graph @g (%x: f32[n, 4]) {
    %a = Softmax(%x) {axis = 0}
    %b = Softmax(%x) {axis = 1}
    %c = Add(%a, %b)
    return %c
  })");
}

TEST_F(SimplifyTest, WhatChangesNothingGoes) {
  expect_pass(simplify, R"(graph @g (%x: f32[n, 4]) {
    %one = constant f32[] [1.0]
    %zero = constant f32[1] [0.0]
    %a = Reshape(%x) {shape = dims[n, 4]}
    %b = Transpose(%a) {perm = [0, 1]}
    %c = Cast(%b) {to = "f32"}
    %d = Mul(%one, %c)
    %e = Add(%d, %zero)
    %f = Slice(%e) {axes = [1], starts = dims[0], ends = dims[4], steps = [1]}
    %g = Concat(%f) {axis = 0}
    %h = Expand(%g) {shape = dims[n, 4]}
    %y = Exp(%h)
    return %y
  })",
              R"(graph @g (%x: f32[n, 4]) {
    %y = Exp(%x)
    return %y
  })");
}

TEST_F(SimplifyTest, BiasesOfConvolutionsThatAreZeroGo) {
  expect_pass(simplify, R"(graph @g (%x: f32[1, 2, 5], %w: f32[2, 2, 1]) {
    %zero = constant f32[2] [0.0, 0.0]
    %some = constant f32[2] [0.0, 1.0]
    %a = Conv(%x, %w, %zero)
    %y = Conv(%a, %w, %some)
    return %y
  })",
              R"(graph @g (%x: f32[1, 2, 5], %w: f32[2, 2, 1]) {
    %some = constant f32[2] [0.0, 1.0]
    %a = Conv(%x, %w)
    %y = Conv(%a, %w, %some)
    return %y
  })");
}

TEST_F(SimplifyTest, AdditionThatBroadcastsStays) {
  expect_pass(simplify, R"(graph @g (%x: f32[4]) {
    %zero = constant f32[2, 4] [0, 0, 0, 0, 0, 0, 0, 0]
    %y = Add(%x, %zero)
    return %y
  })",
              R"(graph @g (%x: f32[4]) {
    %zero = constant f32[2, 4] [0, 0, 0, 0, 0, 0, 0, 0]
    %y = Add(%x, %zero)
    return %y
  })");
}

TEST_F(SimplifyTest, MovementsInARowMerge) {
  expect_pass(simplify, R"(graph @g (%x: f32[a, b, c]) {
    %1 = Transpose(%x) {perm = [1, 2, 0]}
    %2 = Transpose(%1) {perm = [1, 2, 0]}
    %3 = Reshape(%2) {shape = dims[c*a, b]}
    %4 = Reshape(%3) {shape = dims[c, a, b]}
    %y = Exp(%4)
    return %y
  })",
              R"(graph @g (%x: f32[a, b, c]) {
    %2 = Transpose(%x) {perm = [2, 0, 1]}
    %y = Exp(%2)
    return %y
  })");
}

TEST_F(SimplifyTest, TransposesThatUndoEachOtherGo) {
  expect_pass(simplify, R"(graph @g (%x: f32[a, b]) {
    %1 = Transpose(%x) {perm = [1, 0]}
    %2 = Transpose(%1) {perm = [1, 0]}
    %y = Exp(%2)
    return %y
  })",
              R"(graph @g (%x: f32[a, b]) {
    %y = Exp(%x)
    return %y
  })");
}

TEST_F(SimplifyTest, ATransposeOfOnesIsAReshape) {
  expect_pass(simplify, R"(graph @g (%x: f32[a, 1, b]) {
    %y = Transpose(%x) {perm = [1, 0, 2]}
    return %y
  })",
              R"(graph @g (%x: f32[a, 1, b]) {
    %y = Reshape(%x) {shape = dims[1, a, b]}
    return %y
  })");
}

TEST_F(SimplifyTest, TransposesMergeAcrossOnesThatComeAndGo) {
  expect_pass(simplify, R"(graph @g (%x: f32[1, 4, s, 16]) {
    %1 = Reshape(%x) {shape = dims[4, s, 16]}
    %2 = Transpose(%1) {perm = [0, 2, 1]}
    %3 = Reshape(%2) {shape = dims[1, 4, 16, s]}
    %4 = Transpose(%3) {perm = [0, 1, 3, 2]}
    %y = Exp(%4)
    %5 = Transpose(%3) {perm = [3, 0, 1, 2]}
    %z = Exp(%5)
    return %y, %z
  })",
              R"(graph @g (%x: f32[1, 4, s, 16]) {
    %1 = Reshape(%x) {shape = dims[4, s, 16]}
    %y = Exp(%x)
    %2 = Transpose(%1) {perm = [1, 0, 2]}
    %3 = Reshape(%2) {shape = dims[s, 1, 4, 16]}
    %z = Exp(%3)
    return %y, %z
  })");
}

TEST_F(SimplifyTest, ACastToAWiderFloatAndBackGoesOneToANarrowerStays) {
  expect_pass(simplify, R"(graph @g (%x: f16[n], %z: f32[n]) {
    %1 = Cast(%x) {to = "f32"}
    %2 = Cast(%1) {to = "f16"}
    %3 = Exp(%2)
    %4 = Cast(%z) {to = "f16"}
    %5 = Cast(%4) {to = "f32"}
    return %3, %5
  })",
              R"(graph @g (%x: f16[n], %z: f32[n]) {
    %3 = Exp(%x)
    %4 = Cast(%z) {to = "f16"}
    %5 = Cast(%4) {to = "f32"}
    return %3, %5
  })");
}

TEST_F(SimplifyTest, SmallPowersBecomeCheaperOperators) {
  expect_pass(simplify,
              R"(graph @g (%x: f32[n, 4]) {
    %two = constant f32[] [2.0]
    %half = constant f32[] [0.5]
    %minus = constant f32[] [-1.0]
    %a = Pow(%x, %two)
    %b = Pow(%a, %half)
    %c = Pow(%b, %minus)
    %d = Pow(%c, %c)
    return %d
  })",
              R"(graph @g (%x: f32[n, 4]) {
    %a = Mul(%x, %x)
    %b = Sqrt(%a)
    %c = Reciprocal(%b)
    %d = Pow(%c, %c)
    return %d
  })");
}

TEST_F(SimplifyTest, TokensFlattenedForAProductKeepTheirDimension) {
  expect_pass(simplify, R"(graph @g (%x: f32[b, s, 8]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[16] data
    %1 = Reshape(%x) {shape = dims[b*s, 8]}
    %2 = MatMul(%1, %w)
    %3 = Add(%2, %bias)
    %4 = Reshape(%3) {shape = dims[b, s, 16]}
    return %4
  })",
              R"(graph @g (%x: f32[b, s, 8]) {
    %w = constant f32[8, 16] data
    %bias = constant f32[16] data
    %2 = MatMul(%x, %w)
    %3 = Add(%2, %bias)
    return %3
  })");
}

}  // namespace
}  // namespace tutti
