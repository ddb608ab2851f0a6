// Reshapes of tokens to a grid, at the end of a model: what stood behind them stands in front.
#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class SinkGridsTest : public CompilerTest {
 protected:
  void expect_unchanged(std::string_view text) { expect_pass(sink_grids, text, text); }

  void expect_equal(std::string_view text, const NamedTensors& inputs) {
    const auto whole = parse_model(text);
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs, {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"cp=1", "cp=2", "cp=3", "cp=4"}) {
      const auto found = interpreter.run(compile_text(text, options(mesh)), inputs);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
      }
    }
  }

  // Bytes that all ranks send in the only exchange that serves no attention.
  static Dim gathered_bytes(const CompiledModel& compiled) {
    Dim bytes = 0;
    for (const ExchangeInfo& exchange : compiled.exchanges) {
      if (exchange.kind == "AllGather") bytes = bytes + exchange.sent_bytes;
    }
    return bytes;
  }
};

// An output layer as of video models: norm, modulation, product, then pixels out of features.
TEST_F(SinkGridsTest, ANormAModulationAndAProductWorkOnTokens) {
  expect_pass(sink_grids,
              R"(graph @g (%x: f32[b, f*h, 8], %s: f32[b, 1, 1, 8]) {
    %w = constant f32[8] data
    %m = constant f32[8, 4] data
    %g = Reshape(%x) {shape = dims[b, f, h, 8]}
    %n = RMSNormalization(%g, %w) {axis = 3, epsilon = 0.0009765625}
    %z = Mul(%n, %s)
    %y = MatMul(%z, %m)
    return %y
  })",
              R"(graph @g (%x: f32[b, f*h, 8], %s: f32[b, 1, 1, 8]) {
    %w = constant f32[8] data
    %m = constant f32[8, 4] data
    %n = RMSNormalization(%x, %w) {axis = 2, epsilon = 0.0009765625}
    %r = Reshape(%s) {shape = dims[b, 1, 8]}
    %z = Mul(%n, %r)
    %y = MatMul(%z, %m)
    %g = Reshape(%y) {shape = dims[b, f, h, 4]}
    return %g
  })");
}

TEST_F(SinkGridsTest, AConvolutionThatLooksAtOnePlaceIsAProductOfTokens) {
  const auto graph = parse(R"(graph @g (%x: f32[1, 15, 8], %image: f32[1, 4, 3, 5]) {
    %k = constant f32[4, 8, 1, 1] data
    %bias = constant f32[4] data
    %scale = constant f32[4, 1, 1] data
    %g = Reshape(%x) {shape = dims[1, 3, 5, 8]}
    %t = Transpose(%g) {perm = [0, 3, 1, 2]}
    %c = Conv(%t, %k, %bias) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]}
    %z = Mul(%c, %scale)
    %y = Add(%image, %z)
    return %y
  })");
  ASSERT_TRUE(sink_grids(*graph, options()).ok());
  ASSERT_TRUE(graph->verify().ok());
  EXPECT_EQ(count_nodes(*graph, "Conv"), 0) << print(*graph);
  EXPECT_EQ(find_node(*graph, "MatMul")->output()->shape(), (Shape{1, 15, 4}));
  const Node* last = graph->outputs()[0]->producer();
  EXPECT_EQ(last->type(), "Transpose");
  EXPECT_EQ(last->output()->shape(), (Shape{1, 4, 3, 5}));
}

TEST_F(SinkGridsTest, WhatLooksAtOtherRowsKeepsItsGrid) {
  // A norm over a row of the grid.
  expect_unchanged(R"(graph @g (%x: f32[1, 15, 8]) {
    %w = constant f32[5, 8] data
    %g = Reshape(%x) {shape = dims[1, 3, 5, 8]}
    %n = RMSNormalization(%g, %w) {axis = 2, epsilon = 0.0009765625}
    return %n
  })");
  // A convolution over neighbours.
  expect_unchanged(R"(graph @g (%x: f32[1, 15, 8]) {
    %k = constant f32[4, 8, 3, 3] data
    %g = Reshape(%x) {shape = dims[1, 3, 5, 8]}
    %t = Transpose(%g) {perm = [0, 3, 1, 2]}
    %c = Conv(%t, %k) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]}
    return %c
  })");
  // A number for each frame.
  expect_unchanged(R"(graph @g (%x: f32[1, 15, 8], %s: f32[1, 3, 1, 8]) {
    %g = Reshape(%x) {shape = dims[1, 3, 5, 8]}
    %y = Mul(%g, %s)
    return %y
  })");
}

TEST_F(SinkGridsTest, OnlyAtTheEndOfAModel) {
  expect_unchanged(R"(graph @g (%x: f32[1, 15, 8]) {
    %m = constant f32[8, 8] data
    %g = Reshape(%x) {shape = dims[3, 5, 8]}
    %q = MatMul(%g, %m)
    %h = Reshape(%q) {shape = dims[3, 5, 2, 4]}
    %a = Attention(%h, %h, %h) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
}

// Two transformers over one image whose results are mixed: one gather of the mixture.
TEST_F(SinkGridsTest, ResultsThatAreMixedAreGatheredOnce) {
  const std::string branch = R"(    %wq# = constant f32[8, 8] data
    %wo# = constant f32[8, 8] data
    %k# = constant f32[8, 8, 1, 1] data
    %q# = MatMul(%x, %wq#)
    %h# = Reshape(%q#) {shape = dims[1, 15, 4, 2]}
    %a# = Attention(%h#, %h#, %h#) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %f# = Reshape(%a#) {shape = dims[1, 15, 8]}
    %o# = MatMul(%f#, %wo#)
    %g# = Reshape(%o#) {shape = dims[1, 3, 5, 8]}
    %t# = Transpose(%g#) {perm = [0, 3, 1, 2]}
    %c# = Conv(%t#, %k#) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]}
    %r# = Sub(%c#, %image)
)";
  const auto numbered = [&](const char* number) {
    std::string out = branch;
    for (std::size_t at; (at = out.find('#')) != std::string::npos;) out.replace(at, 1, number);
    return out;
  };
  const std::string text = str_cat(R"(graph @g (%image: f32[1, 8, 3, 5]) {
    %p = Transpose(%image) {perm = [0, 2, 3, 1]}
    %x = Reshape(%p) {shape = dims[1, 15, 8]}
)",
                                   numbered("1"), numbered("2"), R"(    %y = Add(%r1, %r2)
    return %y
  })");
  for (const int ranks : {2, 3, 4}) {
    const CompiledModel compiled = compile_text(text, options(str_cat("cp=", ranks)));
    EXPECT_EQ(*gathered_bytes(compiled).evaluate({{"rank.cp", 0}}),
              (15 + ranks - 1) / ranks * 8 * 4 * (ranks - 1))
        << compiled.explain;
  }
  expect_equal(text, {{"image", random_f32({1, 8, 3, 5}, 1)}});
}

}  // namespace
}  // namespace tutti
