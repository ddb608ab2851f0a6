#include "compiler_fixture.h"

namespace tutti {
namespace {

using FuseNormTest = CompilerTest;

constexpr std::string_view kRms = R"(graph @g (%x: f32[b, s, 4]) {
  %w = constant f32[4] data
  %n = RMSNormalization(%x, %w) {axis = 2, epsilon = 0.0009765625}
  return %n
})";

TEST_F(FuseNormTest, RootOfMeanOfPowerThenReciprocal) {
  expect_pass(fuse_norm, R"(graph @g (%x: f32[b, s, 4]) {
    %w = constant f32[4] data
    %two = constant f32[] [2.0]
    %eps = constant f32[] [0.0009765625]
    %sq = Pow(%x, %two)
    %m = Reduce(%sq) {kind = "mean", axes = [2], keepdims = 1}
    %e = Add(%m, %eps)
    %r = Sqrt(%e)
    %i = Reciprocal(%r)
    %n = Mul(%x, %i)
    %y = Mul(%n, %w)
    return %y
  })",
              kRms);
}

TEST_F(FuseNormTest, DivisionByTheRoot) {
  expect_pass(fuse_norm, R"(graph @g (%x: f32[b, s, 4]) {
    %w = constant f32[4] data
    %eps = constant f32[] [0.0009765625]
    %sq = Mul(%x, %x)
    %m = Reduce(%sq) {kind = "mean", axes = [2], keepdims = 1}
    %e = Add(%eps, %m)
    %r = Sqrt(%e)
    %n = Div(%x, %r)
    %y = Mul(%w, %n)
    return %y
  })",
              kRms);
}

TEST_F(FuseNormTest, OneOverTheRootAndAPowerOfMinusAHalf) {
  for (const std::string_view inverse :
       {"%r = Sqrt(%e)\n %i = Div(%one, %r)", "%i = Pow(%e, %half)"}) {
    expect_pass(fuse_norm,
                str_cat(R"(graph @g (%x: f32[b, s, 4]) {
      %w = constant f32[4] data
      %eps = constant f32[] [0.0009765625]
      %one = constant f32[] [1.0]
      %half = constant f32[] [-0.5]
      %sq = Mul(%x, %x)
      %m = Reduce(%sq) {kind = "mean", axes = [2], keepdims = 1}
      %e = Add(%m, %eps)
      )",
                        inverse, R"(
      %n = Mul(%i, %x)
      %y = Mul(%n, %w)
      return %y
    })"),
                kRms);
  }
}

TEST_F(FuseNormTest, CentredFirstIsALayerNorm) {
  expect_pass(fuse_norm, R"(graph @g (%x: f32[b, s, 4]) {
    %w = constant f32[4] data
    %bias = constant f32[1, 1, 4] data
    %two = constant f32[] [2.0]
    %eps = constant f32[] [0.0009765625]
    %mean = Reduce(%x) {kind = "mean", axes = [2], keepdims = 1}
    %d = Sub(%x, %mean)
    %sq = Pow(%d, %two)
    %m = Reduce(%sq) {kind = "mean", axes = [2], keepdims = 1}
    %e = Add(%m, %eps)
    %r = Sqrt(%e)
    %n = Div(%d, %r)
    %s = Mul(%n, %w)
    %y = Add(%s, %bias)
    return %y
  })",
              R"(graph @g (%x: f32[b, s, 4]) {
    %w = constant f32[4] data
    %bias3 = constant f32[1, 1, 4] data
    %bias = Reshape(%bias3) {shape = dims[4]}
    %y = LayerNormalization(%x, %w, %bias) {axis = 2, epsilon = 0.0009765625}
    return %y
  })");
}

TEST_F(FuseNormTest, AMeanOverAnotherDimensionIsNoNorm) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[b, s, 4]) {
    %eps = constant f32[] [0.0009765625]
    %sq = Mul(%x, %x)
    %m = Reduce(%sq) {kind = "mean", axes = [1], keepdims = 1}
    %e = Add(%m, %eps)
    %r = Sqrt(%e)
    %n = Div(%x, %r)
    return %n
  })";
  expect_pass(fuse_norm, kText, kText);
}

TEST_F(FuseNormTest, AScaleThatVariesByBatchStaysOutside) {
  expect_pass(fuse_norm, R"(graph @g (%x: f32[b, s, 4], %scale: f32[b, 1, 4]) {
    %eps = constant f32[] [0.0009765625]
    %sq = Mul(%x, %x)
    %m = Reduce(%sq) {kind = "mean", axes = [2], keepdims = 1}
    %e = Add(%m, %eps)
    %r = Sqrt(%e)
    %n = Div(%x, %r)
    %y = Mul(%n, %scale)
    return %y
  })",
              R"(graph @g (%x: f32[b, s, 4], %scale: f32[b, 1, 4]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 0.0009765625}
    %y = Mul(%n, %scale)
    return %y
  })");
}

}  // namespace
}  // namespace tutti
