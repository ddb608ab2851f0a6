// Rows and features that only fill attentions up.
#include "backends/cpu/evaluator.h"
#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class TrimAttentionTest : public CompilerTest {
 protected:
  CompileOptions folding() {
    CompileOptions out = options();
    out.evaluator = &evaluator_;
    return out;
  }

  void expect_unchanged(std::string_view text) { expect_pass(trim_attention, text, text); }

  // As flex attention asks for: 5 tokens of 3 features in blocks of 8 by 4. Queries and keys
  // `before` and behind the 5 are closed.
  static std::string filled(int before) {
    std::string mask;
    for (int query = 0; query < 8; ++query) {
      for (int key = 0; key < 8; ++key) {
        const auto is_token = [&](int row) { return row >= before && row < before + 5; };
        mask += is_token(query) && is_token(key) && key <= query ? "true" : "false";
        if (query != 7 || key != 7) mask += ", ";
      }
    }
    const auto pad = [&](std::string_view name) {
      return str_cat("%", name, "f = Pad(%", name,
                     "h) {axes = [3], before = dims[0], after = dims[1]}\n%", name, "p = Pad(%",
                     name, "f) {axes = [1], before = dims[", before, "], after = dims[", 3 - before,
                     "]}\n");
    };
    return str_cat(
        R"(graph @g (%x: f32[1, 5, 12]) {
      %wq = constant f32[12, 12] data
      %wk = constant f32[12, 12] data
      %wo = constant f32[12, 6] data
      %mask = constant bool[1, 1, 8, 8] [)",
        mask, R"(]
      %q = MatMul(%x, %wq)
      %k = MatMul(%x, %wk)
      %qh = Reshape(%q) {shape = dims[1, 5, 4, 3]}
      %kh = Reshape(%k) {shape = dims[1, 5, 4, 3]}
)",
        pad("q"), pad("k"),
        R"(      %a = Attention(%qp, %kp, %kp, %mask) {scale = 0.5, is_causal = 0, layout = "bshd"}
      %s = Slice(%a) {axes = [1, 3], starts = dims[)",
        before, ", 0], ends = dims[", before + 5, R"(, 3], steps = [1, 1]}
      %f = Reshape(%s) {shape = dims[1, 5, 12]}
      %y = MatMul(%f, %wo)
      return %y
    })");
  }

  cpu::CpuEvaluator evaluator_;
};

TEST_F(TrimAttentionTest, RowsAndFeaturesThatFillBlocksGo) {
  for (const int before : {0, 2}) {
    const auto graph = parse_model(filled(before));
    ASSERT_TRUE(trim_attention(*graph, folding()).ok());
    ASSERT_TRUE(graph->verify().ok());
    EXPECT_EQ(count_nodes(*graph, "Pad") + count_nodes(*graph, "Slice"), 0) << print(*graph);
    const Node* attention = find_node(*graph, "Attention");
    EXPECT_EQ(attention->input(0)->shape(), (Shape{1, 5, 4, 3}));
    EXPECT_EQ(attention->input(1)->shape(), (Shape{1, 5, 4, 3}));
    EXPECT_EQ(attention->input(3)->shape(), (Shape{1, 1, 5, 5}));
  }
}

TEST_F(TrimAttentionTest, NothingButHeadsTravelsThen) {
  for (const int before : {0, 2}) {
    const std::string text = filled(before);
    const NamedTensors inputs = {{"x", random_f32({1, 5, 12}, 1)}};
    const auto whole = parse_model(text);
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs, {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"cp=1", "cp=2", "cp=3", "cp=4"}) {
      const CompiledModel compiled = compile_text(text, options(mesh));
      EXPECT_LE(compiled.exchanges.size(), 3U) << compiled.explain;
      const auto found = interpreter.run(compiled, inputs);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
      }
    }
  }
}

// Causal queries count from the first one.
TEST_F(TrimAttentionTest, CausalQueriesThatAreReadKeepTheirPlace) {
  expect_pass(trim_attention,
              R"(graph @g (%q: f32[1, 6, 2, 4], %k: f32[1, 6, 2, 4]) {
    %a = Attention(%q, %k, %k) {scale = 0.5, is_causal = 1, layout = "bshd"}
    %y = Slice(%a) {axes = [1], starts = dims[2], ends = dims[5], steps = [1]}
    return %y
  })",
              R"(graph @g (%q: f32[1, 6, 2, 4], %k: f32[1, 6, 2, 4]) {
    %s = Slice(%q) {axes = [1], starts = dims[2], ends = dims[5], steps = [1]}
    %a = Attention(%s, %k, %k) {causal_offset = dims[2], scale = 0.5, is_causal = 1, layout = "bshd"}
    return %a
  })");
}

TEST_F(TrimAttentionTest, AMaskThatClosesNothingElseGoes) {
  const auto graph = parse(R"(graph @g (%q: f32[b, s, 2, 4], %k: f32[b, 3, 2, 4]) {
    %m = constant bool[3] [true, true, false]
    %a = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
  ASSERT_TRUE(trim_attention(*graph, folding()).ok());
  const Node* attention = find_node(*graph, "Attention");
  EXPECT_EQ(attention->inputs().size(), 3U) << print(*graph);
  EXPECT_EQ(attention->input(1)->shape()[1], Dim(2));
}

TEST_F(TrimAttentionTest, AMaskThatClosesNothingGoes) {
  expect_pass(trim_attention, R"(graph @g (%q: f32[b, s, 2, 4], %k: f32[b, 2, 2, 4]) {
    %m = constant f32[1, 2] [0.0, 0.0]
    %a = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })",
              R"(graph @g (%q: f32[b, s, 2, 4], %k: f32[b, 2, 2, 4]) {
    %a = Attention(%q, %k, %k) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
}

// Which rows of the mask are asked is not known.
TEST_F(TrimAttentionTest, QueriesThatNobodyCanCountKeepAllKeys) {
  const auto graph = parse(R"(graph @g (%q: f32[1, 3, 2, 4], %k: f32[1, 2, 2, 4], %n: f32[n]) {
    %m = constant bool[3, 2] [true, false, true, true, true, true]
    %a = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %y = Slice(%a) {axes = [1], starts = dims[0], ends = dims[n], steps = [1]}
    return %y
  })");
  ASSERT_TRUE(trim_attention(*graph, folding()).ok());
  EXPECT_EQ(find_node(*graph, "Attention")->input(1)->shape()[1], Dim(2));
}

TEST_F(TrimAttentionTest, WhatMattersStays) {
  // A key that one query sees; a pad that is no zero; results that somebody reads.
  expect_unchanged(R"(graph @g (%q: f32[1, 2, 2, 4], %k: f32[1, 3, 2, 4]) {
    %m = constant bool[2, 3] [true, false, false, true, true, true]
    %a = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
  expect_unchanged(R"(graph @g (%q: f32[1, 2, 2, 4], %k: f32[1, 3, 2, 3]) {
    %one = constant f32[] [1.0]
    %p = Pad(%k, %one) {axes = [3], before = dims[0], after = dims[1]}
    %a = Attention(%q, %p, %p) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
  expect_unchanged(R"(graph @g (%q: f32[1, 6, 2, 4], %k: f32[1, 6, 2, 4]) {
    %a = Attention(%q, %k, %k) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %s = Slice(%a) {axes = [1], starts = dims[2], ends = dims[5], steps = [1]}
    %n = Neg(%a)
    return %s, %n
  })");
  // Queries that no key is open to give zeros, with or without their keys.
  expect_unchanged(R"(graph @g (%q: f32[1, 2, 2, 4], %k: f32[1, 2, 2, 4]) {
    %m = constant bool[1, 2] [false, false]
    %a = Attention(%q, %k, %k, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })");
}

}  // namespace
}  // namespace tutti
