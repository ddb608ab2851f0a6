#include "compiler/hoist.h"

#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HoistTest : public CompilerTest {
 protected:
  std::vector<std::string> output_names(const Graph& graph) { return graph.output_names; }
};

TEST_F(HoistTest, TextIsInvariantLatentsAndTimeAreNot) {
  for (const std::string_view mesh : {"", "cp=2", "cfg=2", "cfg=2,cp=2"}) {
    const auto model = compile_text(ToyTransformer().text(), options(mesh));
    EXPECT_THAT(model.invariant_inputs, ElementsAre("text")) << mesh;
  }
}

TEST_F(HoistTest, KeysAndValuesOfTheTextAndRotaryTablesLandInThePrologue) {
  const ToyTransformer toy;
  const auto model = compile_text(toy.text(), options("cp=2"));
  ASSERT_NE(model.prologue, nullptr);
  // The context's projection, and a key and a value product for each layer.
  EXPECT_EQ(count_nodes(*model.prologue, "Linear"), 1 + 2 * toy.layers);
  EXPECT_EQ(count_nodes(*model.prologue, "Cos"), 1);
  EXPECT_EQ(count_nodes(*model.prologue, "Attention"), 0);
  EXPECT_EQ(count_nodes(*model.main, "Attention"), 2 * toy.layers);
  EXPECT_EQ(count_nodes(*model.main, "Cos"), 0);
  EXPECT_EQ(count_nodes(*model.main, "Iota"), 0);
  // main needs the text itself no more.
  EXPECT_EQ(model.main->find_value("text"), nullptr);
  EXPECT_EQ(model.inputs.size(), 3U);
  // Every output of the prologue is an input of main, of the same name and type.
  for (const Value* output : model.prologue->outputs()) {
    const Value* input = model.main->find_value(output->name());
    ASSERT_NE(input, nullptr) << output->name();
    EXPECT_TRUE(input->is_input());
    EXPECT_EQ(input->type(), output->type());
  }
}

TEST_F(HoistTest, NamedInputsReplaceDetection) {
  CompileOptions named = options("cp=2");
  named.invariant_inputs = {"time"};
  const auto model = compile_text(ToyTransformer().text(), named);
  EXPECT_THAT(model.invariant_inputs, ElementsAre("time"));
  EXPECT_NE(model.main->find_value("text"), nullptr);
}

TEST_F(HoistTest, HoistingCanBeOff) {
  CompileOptions off = options("cp=2");
  off.hoist = false;
  EXPECT_EQ(compile_text(ToyTransformer().text(), off).prologue, nullptr);
  CompileOptions blind = options("cp=2");
  blind.detect_invariant_inputs = false;
  const auto model = compile_text(ToyTransformer().text(), blind);
  EXPECT_THAT(model.invariant_inputs, IsEmpty());
  ASSERT_NE(model.prologue, nullptr);  // the tables depend on no input
  EXPECT_EQ(count_nodes(*model.prologue, "Linear"), 0);
  EXPECT_TRUE(model.prologue->inputs().empty());
}

TEST_F(HoistTest, AModelWithoutAttentionHasNoInvariantInput) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 4], %y: f32[b, 4]) {
    %w = constant f32[4, 4] data
    %a = MatMul(%x, %w)
    %b = Add(%a, %y)
    return %b
  })");
  EXPECT_THAT(invariant_inputs(*graph, options()), IsEmpty());
}

// Text and video, joined for an attention in this order, and one over keys beside it.
std::string joined_attention(std::string_view order, std::string_view results) {
  return str_cat(R"(graph @g (%text: f32[1, 5, 16], %video: f32[1, 9, 16], %keys: f32[1, 3, 16]) {
    %w = constant f32[16, 16] data
    %wk = constant f32[16, 16] data
    %j = Concat()",
                 order, R"() {axis = 1}
    %p = MatMul(%j, %w)
    %q = Reshape(%p) {shape = dims[1, 14, 4, 4]}
    %a = Attention(%q, %q, %q) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %f = Reshape(%a) {shape = dims[1, 14, 16]}
    %kp = MatMul(%keys, %wk)
    %k = Reshape(%kp) {shape = dims[1, 3, 4, 4]}
    %b = Attention(%a, %k, %k) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %c = Reshape(%b) {shape = dims[1, 14, 16]}
    )",
                 results, "\n}");
}

// The rows of the result are those of the video, whichever operand of the join it is.
TEST_F(HoistTest, WhatTheResultsRowsComeFromIsDenoised) {
  const auto text_first = parse(joined_attention("%text, %video", R"(
    %y = Slice(%c) {axes = [1], starts = dims[5], ends = dims[14], steps = [1]}
    return %y)"));
  EXPECT_THAT(invariant_inputs(*text_first, options()), ElementsAre("text", "keys"));
  const auto video_first = parse(joined_attention("%video, %text", R"(
    %y = Slice(%c) {axes = [1], starts = dims[0], ends = dims[9], steps = [1]}
    return %y)"));
  EXPECT_THAT(invariant_inputs(*video_first, options()), ElementsAre("text", "keys"));
}

TEST_F(HoistTest, NoSequenceIsInvariantWhereTheResultHasRowsOfAll) {
  const auto graph = parse(joined_attention("%text, %video", "return %c"));
  EXPECT_THAT(invariant_inputs(*graph, options()), ElementsAre("keys"));
}

// Where the result has no rows, queries say what is denoised.
TEST_F(HoistTest, QueriesAreDenoisedWhereTheResultIsOneVector) {
  const auto graph = parse(joined_attention("%text, %video", R"(
    %y = Reduce(%c) {kind = "mean", axes = [1], keepdims = 0}
    return %y)"));
  EXPECT_THAT(invariant_inputs(*graph, options()), ElementsAre("keys"));
}

TEST_F(HoistTest, MovingAnInvariantInputAboutIsNotWorthKeeping) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 4], %y: f32[4, b]) {
    %t = Transpose(%y) {perm = [1, 0]}
    %s = Silu(%t)
    %b = Add(%s, %x)
    return %b
  })");
  const auto parts = hoist(*graph, {"y"});
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->prologue, nullptr);
}

TEST_F(HoistTest, WhatStandsBehindRealWorkMovesWhole) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 4], %y: f32[4, b]) {
    %w = constant f32[4, 4] data
    %t = Transpose(%y) {perm = [1, 0]}
    %k = MatMul(%t, %w)
    %s = Silu(%k)
    %c = Add(%s, %t)
    %d = Add(%c, %x)
    %e = Mul(%d, %t)
    return %e
  })");
  const auto parts = hoist(*graph, {"y"});
  ASSERT_TRUE(parts.ok());
  ASSERT_NE(parts->prologue, nullptr);
  // %c crosses, and so does %t, which is there anyway.
  EXPECT_THAT(output_names(*parts->prologue), ElementsAre("t", "c"));
  EXPECT_EQ(parts->main->nodes().size(), 2U);
  EXPECT_EQ(parts->main->find_value("y"), nullptr);
  EXPECT_EQ(parts->prologue->find_value("x"), nullptr);
}

TEST_F(HoistTest, AnOutputThatOnlyDependsOnInvariantInputs) {
  const auto graph = parse(R"(graph @g (%x: f32[b, 4], %y: f32[b, 4]) {
    %w = constant f32[4, 4] data
    %k = MatMul(%y, %w)
    %d = Exp(%x)
    return %d, %k as keys
  })");
  const auto parts = hoist(*graph, {"y"});
  ASSERT_TRUE(parts.ok());
  EXPECT_THAT(output_names(*parts->prologue), ElementsAre("k"));
  EXPECT_THAT(parts->main->output_names, ElementsAre("d", "keys"));
  EXPECT_EQ(parts->main->outputs()[1]->name(), "k");
}

}  // namespace
}  // namespace tutti
