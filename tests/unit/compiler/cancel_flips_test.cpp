// A convolution of flipped rows whose result is flipped back.
#include "base/str_cat.h"
#include "compiler/passes.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class CancelFlipsTest : public CompilerTest {};

constexpr std::string_view kFlipped = R"(graph @g (%x: f32[2, 5, 4]) {
    %w = constant f32[4, 1, 3] data
    %b = constant f32[4] data
    %f = Slice(%x) {axes = [1], starts = dims[4], ends = dims[-1], steps = [-1]}
    %t = Transpose(%f) {perm = [0, 2, 1]}
    %c = Conv(%t, %w, %b) {dilations = [1], group = 4, pads = [2, 0], strides = [1]}
    %u = Transpose(%c) {perm = [0, 2, 1]}
    %y = Slice(%u) {axes = [1], starts = dims[4], ends = dims[-1], steps = [-1]}
    return %y
  })";

TEST_F(CancelFlipsTest, TheKernelIsFlippedInstead) {
  expect_pass(cancel_flips, kFlipped, R"(graph @g (%x: f32[2, 5, 4]) {
    %w = constant f32[4, 1, 3] data
    %b = constant f32[4] data
    %t = Transpose(%x) {perm = [0, 2, 1]}
    %v = Slice(%w) {axes = [2], starts = dims[2], ends = dims[-1], steps = [-1]}
    %c = Conv(%t, %v, %b) {dilations = [1], group = 4, pads = [0, 2], strides = [1]}
    %y = Transpose(%c) {perm = [0, 2, 1]}
    return %y
  })");
}

TEST_F(CancelFlipsTest, NumbersStay) {
  const auto before = parse_model(kFlipped);
  const auto after = parse_model(kFlipped);
  ASSERT_TRUE(cancel_flips(*after, options()).ok());
  EXPECT_EQ(count_nodes(*after, "Slice"), 1);  // of the kernel
  const NamedTensors inputs = {{"x", random_f32({2, 5, 4}, 1)}};
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*before, inputs, {});
  const auto found = interpreter.run_whole(*after, inputs, {});
  ASSERT_TRUE(right.ok() && found.ok());
  EXPECT_LE(relative_error((*found)[0], (*right)[0]), 1e-6);
}

TEST_F(CancelFlipsTest, OtherFlipsStay) {
  for (const std::string_view middle :
       {// another dimension is flipped back
        "%y = Slice(%c) {axes = [1], starts = dims[3], ends = dims[-1], steps = [-1]}",
        // only some rows are
        "%y = Slice(%c) {axes = [2], starts = dims[3], ends = dims[-1], steps = [-1]}",
        // they are normalised in between
        "%s = Softmax(%c) {axis = 2}\n"
        "%y = Slice(%s) {axes = [2], starts = dims[4], ends = dims[-1], steps = [-1]}",
        // and read in the flipped order, too
        "%r = Slice(%c) {axes = [2], starts = dims[4], ends = dims[-1], steps = [-1]}\n"
        "%y = Add(%r, %c)"}) {
    const std::string text = str_cat(R"(graph @g (%x: f32[2, 4, 5]) {
    %w = constant f32[4, 1, 3] data
    %f = Slice(%x) {axes = [2], starts = dims[4], ends = dims[-1], steps = [-1]}
    %c = Conv(%f, %w) {dilations = [1], group = 4, pads = [1, 1], strides = [1]}
    )",
                                     middle, "\n    return %y\n  }");
    expect_pass(cancel_flips, text, text);
  }
}

}  // namespace
}  // namespace tutti
