#include "compiler_fixture.h"

namespace tutti {
namespace {

class FuseGroupNormTest : public CompilerTest {};

TEST_F(FuseGroupNormTest, AnInstanceNormBetweenReshapesTakesScaleAndBias) {
  expect_pass(fuse_group_norm, R"(graph @g (%x: f32[n, 4, h, w]) {
    %ones = constant f32[2] [1.0, 1.0]
    %zeros = constant f32[2] [0.0, 0.0]
    %scale = constant f32[4, 1, 1] [1.0, 2.0, 3.0, 4.0]
    %bias = constant f32[4, 1, 1] [5.0, 6.0, 7.0, 8.0]
    %r = Reshape(%x) {shape = dims[n, 2, 2*h*w]}
    %i = GroupNorm(%r, %ones, %zeros) {epsilon = 0.001, groups = 2}
    %b = Reshape(%i) {shape = dims[n, 4, h, w]}
    %s = Mul(%b, %scale)
    %y = Add(%s, %bias)
    return %y
  })",
              R"(graph @g (%x: f32[n, 4, h, w]) {
    %scale = constant f32[4, 1, 1] [1.0, 2.0, 3.0, 4.0]
    %bias = constant f32[4, 1, 1] [5.0, 6.0, 7.0, 8.0]
    %s = Reshape(%scale) {shape = dims[4]}
    %b = Reshape(%bias) {shape = dims[4]}
    %y = GroupNorm(%x, %s, %b) {epsilon = 0.001, groups = 2}
    return %y
  })");
}

TEST_F(FuseGroupNormTest, OtherShapesAndScalesStay) {
  const auto text = [](const char* scale, const char* shape) {
    return str_cat(R"(graph @g (%x: f32[n, 4, h]) {
      %scale = constant f32[2] )",
                   scale, R"(
      %r = Reshape(%x) {shape = dims[n, 2, 2*h]}
      %i = GroupNorm(%r, %scale) {epsilon = 0.001, groups = 2}
      %y = Reshape(%i) {shape = dims)",
                   shape, R"(}
      return %y
    })");
  };
  expect_pass(fuse_group_norm, text("[1.0, 3.0]", "[n, 4, h]"), text("[1.0, 3.0]", "[n, 4, h]"));
  expect_pass(fuse_group_norm, text("[1.0, 1.0]", "[n, h, 4]"), text("[1.0, 1.0]", "[n, h, 4]"));
}

}  // namespace
}  // namespace tutti
