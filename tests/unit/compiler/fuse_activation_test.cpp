#include "compiler_fixture.h"

namespace tutti {
namespace {

using FuseActivationTest = CompilerTest;

constexpr std::string_view kSilu = R"(graph @g (%x: f32[n, 4]) {
  %y = Silu(%x)
  return %y
})";
constexpr std::string_view kGelu = R"(graph @g (%x: f32[n, 4]) {
  %y = Gelu(%x) {approximate = "none"}
  return %y
})";
constexpr std::string_view kGeluTanh = R"(graph @g (%x: f32[n, 4]) {
  %y = Gelu(%x) {approximate = "tanh"}
  return %y
})";

TEST_F(FuseActivationTest, ANumberTimesItsSigmoid) {
  expect_pass(fuse_activation, R"(graph @g (%x: f32[n, 4]) {
    %s = Sigmoid(%x)
    %y = Mul(%s, %x)
    return %y
  })",
              kSilu);
}

TEST_F(FuseActivationTest, ANumberOverOnePlusExp) {
  expect_pass(fuse_activation, R"(graph @g (%x: f32[n, 4]) {
    %one = constant f32[] [1.0]
    %m = Neg(%x)
    %e = Exp(%m)
    %d = Add(%e, %one)
    %y = Div(%x, %d)
    return %y
  })",
              kSilu);
}

TEST_F(FuseActivationTest, TheSigmoidOfAnotherValueIsAGate) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[n, 4], %z: f32[n, 4]) {
    %s = Sigmoid(%z)
    %y = Mul(%s, %x)
    return %y
  })";
  expect_pass(fuse_activation, kText, kText);
}

TEST_F(FuseActivationTest, GeluWithErfInAnyOrderOfItsFactors) {
  for (const std::string_view tail :
       {"%a = Mul(%x, %p)\n %y = Mul(%a, %half)", "%a = Mul(%x, %half)\n %y = Mul(%a, %p)",
        "%a = Mul(%half, %p)\n %y = Mul(%x, %a)", "%a = Mul(%p, %x)\n %y = Div(%a, %two)"}) {
    expect_pass(fuse_activation,
                str_cat(R"(graph @g (%x: f32[n, 4]) {
      %one = constant f32[] [1.0]
      %half = constant f32[] [0.5]
      %two = constant f32[] [2.0]
      %root = constant f32[] [1.4142135]
      %u = Div(%x, %root)
      %e = Erf(%u)
      %p = Add(%e, %one)
      )",
                        tail, "\n return %y\n}"),
                kGelu);
  }
}

TEST_F(FuseActivationTest, GeluOfAProductKeepsTheProduct) {
  expect_pass(fuse_activation, R"(graph @g (%a: f32[n, 4], %b: f32[n, 4]) {
    %one = constant f32[] [1.0]
    %half = constant f32[] [0.5]
    %inverse = constant f32[] [0.70710677]
    %x = Mul(%a, %b)
    %u = Mul(%x, %inverse)
    %e = Erf(%u)
    %p = Add(%e, %one)
    %h = Mul(%x, %half)
    %y = Mul(%h, %p)
    return %y
  })",
              R"(graph @g (%a: f32[n, 4], %b: f32[n, 4]) {
    %x = Mul(%a, %b)
    %y = Gelu(%x) {approximate = "none"}
    return %y
  })");
}

TEST_F(FuseActivationTest, GeluWithTanhInBothSpellings) {
  for (const std::string_view inner :
       {"%c = Pow(%x, %three)\n %k = Mul(%c, %cubic)\n %s = Add(%x, %k)\n %w = Mul(%s, %scale)",
        "%c = Mul(%x, %x)\n %d = Mul(%c, %x)\n %k = Mul(%cubic, %d)\n %s = Add(%k, %x)\n"
        " %w = Mul(%scale, %s)",
        "%c = Mul(%x, %x)\n %k = Mul(%c, %cubic)\n %s = Add(%k, %one)\n %v = Mul(%x, %scale)\n"
        " %w = Mul(%v, %s)"}) {
    expect_pass(fuse_activation,
                str_cat(R"(graph @g (%x: f32[n, 4]) {
      %one = constant f32[] [1.0]
      %half = constant f32[] [0.5]
      %three = constant f32[] [3.0]
      %cubic = constant f32[] [0.044715]
      %scale = constant f32[] [0.79788458]
      )",
                        inner, R"(
      %t = Tanh(%w)
      %p = Add(%t, %one)
      %h = Mul(%x, %half)
      %y = Mul(%h, %p)
      return %y
    })"),
                kGeluTanh);
  }
}

TEST_F(FuseActivationTest, AnotherConstantIsNoGelu) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[n, 4]) {
    %one = constant f32[] [1.0]
    %half = constant f32[] [0.5]
    %root = constant f32[] [1.5]
    %u = Div(%x, %root)
    %e = Erf(%u)
    %p = Add(%e, %one)
    %h = Mul(%x, %half)
    %y = Mul(%h, %p)
    return %y
  })";
  expect_pass(fuse_activation, kText, kText);
}

}  // namespace
}  // namespace tutti
