#include "base/str_cat.h"
#include "compiler_fixture.h"

namespace tutti {
namespace {

class FusePadTest : public CompilerTest {};

TEST_F(FusePadTest, RepeatedFirstRowsBecomeEdgePadding) {
  for (const char* repeated :
       {"%r = Expand(%f) {shape = dims[1, 3, 2, h]}", "%r = Tile(%f) {repeats = dims[1, 1, 2, 1]}",
        "%r = Concat(%f, %f) {axis = 2}"}) {
    expect_pass(fuse_pad,
                str_cat(R"(graph @g (%x: f32[1, 3, t, h]) {
                  %f = Slice(%x) {axes = [2], starts = dims[0], ends = dims[1], steps = [1]}
                  )",
                        repeated, R"(
                  %y = Concat(%r, %x) {axis = 2}
                  return %y
                })"),
                R"(graph @g (%x: f32[1, 3, t, h]) {
                  %y = Pad(%x) {after = dims[0], axes = [2], before = dims[2], mode = "edge"}
                  return %y
                })");
  }
}

TEST_F(FusePadTest, BothEndsAtOnce) {
  expect_pass(fuse_pad, R"(graph @g (%x: f32[1, t, 4]) {
    %f = Slice(%x) {axes = [1], starts = dims[0], ends = dims[1], steps = [1]}
    %l = Slice(%x) {axes = [1], starts = dims[t-1], ends = dims[t], steps = [1]}
    %y = Concat(%f, %f, %x, %l) {axis = 1}
    return %y
  })",
              R"(graph @g (%x: f32[1, t, 4]) {
    %y = Pad(%x) {after = dims[1], axes = [1], before = dims[2], mode = "edge"}
    return %y
  })");
}

TEST_F(FusePadTest, AnotherRowOrAnotherValueIsNoPadding) {
  for (const char* part :
       {"%p = Slice(%x) {axes = [1], starts = dims[1], ends = dims[2], steps = [1]}",
        "%p = Slice(%z) {axes = [1], starts = dims[0], ends = dims[1], steps = [1]}",
        "%p = Slice(%x) {axes = [1], starts = dims[0], ends = dims[2], steps = [1]}"}) {
    const std::string text = str_cat(R"(graph @g (%x: f32[1, t, 4], %z: f32[1, t, 4]) {
      )",
                                     part, R"(
      %y = Concat(%p, %x) {axis = 1}
      return %y
    })");
    expect_pass(fuse_pad, text, text);
  }
}

TEST_F(FusePadTest, JoinedZerosAndPadsWithZerosBecomeTheConvolutions) {
  constexpr std::string_view kConv = R"(graph @g (%x: f32[1, 2, t, h]) {
    %w = constant f32[2, 2, 3, 3] data
    %y = Conv(%x, %w) {pads = [2, 2, 1, 1]}
    return %y
  })";
  expect_pass(fuse_pad, R"(graph @g (%x: f32[1, 2, t, h]) {
    %w = constant f32[2, 2, 3, 3] data
    %p = Pad(%x) {axes = [3, 2], before = dims[1, 2], after = dims[0, 1], mode = "constant"}
    %y = Conv(%p, %w) {pads = [0, 1, 0, 1]}
    return %y
  })",
              kConv);
  expect_pass(fuse_pad, R"(graph @g (%x: f32[1, 2, t, h]) {
    %w = constant f32[2, 2, 3, 3] data
    %zero = constant f32[] [0.0]
    %z = Fill(%zero) {shape = dims[1, 2, 2, h]}
    %l = Fill(%zero) {shape = dims[1, 2, 1, h]}
    %p = Concat(%z, %x, %l) {axis = 2}
    %y = Conv(%p, %w) {pads = [0, 2, 0, 1]}
    return %y
  })",
              kConv);
}

TEST_F(FusePadTest, OtherPadsStayInFrontOfTheConvolution) {
  for (
      const char* pad :
      {R"(%p = Pad(%x) {after = dims[0], axes = [2], before = dims[1], mode = "edge"})",
       R"(%p = Pad(%x) {after = dims[0], axes = [1], before = dims[1], mode = "constant"})",
       "%one = constant f32[] [1.0]\n"
       R"(%p = Pad(%x, %one) {after = dims[0], axes = [2], before = dims[1], mode = "constant"})"}) {
    const std::string text = str_cat(R"(graph @g (%x: f32[1, 2, t]) {
      %w = constant f32[2, 2, 3] data
      )",
                                     pad, R"(
      %s = Slice(%p) {axes = [1], starts = dims[0], ends = dims[2], steps = [1]}
      %y = Conv(%s, %w) {pads = [1, 1]}
      return %y
    })");
    expect_pass(fuse_pad, text, text);
  }
}

// A convolution that is padded on both sides and cut to be causal.
TEST_F(FusePadTest, RowsCutOffAConvolutionsResultArePaddingLess) {
  expect_pass(fuse_pad, R"(graph @g (%x: f32[1, 4, t]) {
    %w = constant f32[4, 4, 3] data
    %c = Conv(%x, %w) {dilations = [1], group = 1, pads = [2, 2], strides = [1]}
    %y = Slice(%c) {axes = [2], starts = dims[0], ends = dims[t], steps = [1]}
    return %y
  })",
              R"(graph @g (%x: f32[1, 4, t]) {
    %w = constant f32[4, 4, 3] data
    %y = Conv(%x, %w) {dilations = [1], group = 1, pads = [2, 0], strides = [1]}
    return %y
  })");
}

TEST_F(FusePadTest, RowsThatHoldMoreThanPaddingAreCutOffBehind) {
  for (const std::string_view cut :
       {"axes = [2], starts = dims[2], ends = dims[7], steps = [1]",
        "axes = [2], starts = dims[0], ends = dims[5], steps = [1]",
        "axes = [1], starts = dims[0], ends = dims[2], steps = [1]",
        "axes = [2], starts = dims[6], ends = dims[-1], steps = [-1]"}) {
    const std::string text = str_cat(R"(graph @g (%x: f32[1, 4, 7]) {
    %w = constant f32[4, 4, 3] data
    %c = Conv(%x, %w) {dilations = [1], group = 1, pads = [1, 1], strides = [1]}
    %y = Slice(%c) {)",
                                     cut, "}\n    return %y\n  }");
    expect_pass(fuse_pad, text, text);
  }
}

}  // namespace
}  // namespace tutti
