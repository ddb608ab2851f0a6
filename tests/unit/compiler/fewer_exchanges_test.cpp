// What could be exchanged and is not, and that nothing changes for it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

using Counts = std::map<std::string, int>;

Counts exchanges_of(const CompiledModel& compiled) {
  Counts kinds;
  for (const ExchangeInfo& exchange : compiled.exchanges) ++kinds[exchange.kind];
  return kinds;
}

class FewerExchangesTest : public CompilerTest {
 protected:
  // The model on 1, 2, 3 and 4 ranks gives what the graph gives.
  void expect_equal(std::string_view text, const NamedTensors& inputs) {
    expect_equal(*parse_model(text), inputs);
  }

  void expect_equal(const Graph& whole, const NamedTensors& inputs) {
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(whole, inputs, {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"cp=1", "cp=2", "cp=3", "cp=4"}) {
      const auto compiled = compile(whole.clone(), options(mesh));
      ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
      const auto found = interpreter.run(*compiled, inputs);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_LE(relative_error(outputs[i], (*right)[i]), 1e-5) << mesh << ", output " << i;
        }
      }
    }
  }
};

// The attention's queries are labelled along tokens, but it will take heads: a mask that was made
// in pieces along the queries would have to be put together.
TEST_F(FewerExchangesTest, AMaskThatCostsNothingIsMadeWholeWhereAttentionTakesHeads) {
  const std::string text = R"(graph @g (%x: f32[1, 10, 16], %m: f32[1, 1, 10, 10]) {
    %two = constant f32[] [2.0]
    %wq = constant f32[16, 16] data
    %q = MatMul(%x, %wq)
    %h = Reshape(%q) {shape = dims[1, 10, 4, 4]}
    %mask = Mul(%m, %two)
    %a = Attention(%h, %h, %h, %mask) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %f = Reshape(%a) {shape = dims[1, 10, 16]}
    %wo = constant f32[16, 16] data
    %y = MatMul(%f, %wo)
    return %y
  })";
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 2}, {"AllGather", 1}}))
        << compiled.explain;
  }
  expect_equal(text, {{"x", random_f32({1, 10, 16}, 1)}, {"m", random_f32({1, 1, 10, 10}, 2)}});
}

// With one head the queries stay in pieces, and so does the mask.
TEST_F(FewerExchangesTest, AMaskFollowsTheQueriesWhereHeadsRunOut) {
  const std::string text = R"(graph @g (%x: f32[1, 10, 16], %m: f32[1, 1, 10, 10]) {
    %two = constant f32[] [2.0]
    %wq = constant f32[16, 16] data
    %q = MatMul(%x, %wq)
    %h = Reshape(%q) {shape = dims[1, 10, 1, 16]}
    %mask = Mul(%m, %two)
    %a = Attention(%h, %h, %h, %mask) {scale = 0.5, is_causal = 0, layout = "bshd"}
    return %a
  })";
  const CompiledModel compiled = compile_text(text, options("cp=2"));
  EXPECT_THAT(compiled.explain, ::testing::HasSubstr("mask: f32 [1, 1, 10/cp, 10]"));
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllGather", 2}})) << compiled.explain;
  expect_equal(text, {{"x", random_f32({1, 10, 16}, 1)}, {"m", random_f32({1, 1, 10, 10}, 2)}});
}

// A projection to heads for a Reshape to them.
std::string heads(std::string_view name, std::string_view x, int tokens) {
  return str_cat("  %", name, ".w = constant f32[16, 16] data\n  %", name, ".p = MatMul(%", x,
                 ", %", name, ".w)\n  %", name, " = Reshape(%", name, ".p) {shape = dims[1, ",
                 tokens, ", 4, 4]}\n");
}

std::string merged(std::string_view name, std::string_view x, int tokens) {
  return str_cat("  %", name, ".f = Reshape(%", x, ") {shape = dims[1, ", tokens, ", 16]}\n  %",
                 name, ".w = constant f32[16, 16] data\n  %", name, " = MatMul(%", name, ".f, %",
                 name, ".w)\n");
}

// A prompt of two encoders, 4 words as they are and 7 that have been through an attention of their
// own, beside 13 patches: a layer with a stream for each, then one that joins them.
std::string nested_sequences() {
  std::string text = R"(graph @g (%a: f32[1, 4, 16], %b: f32[1, 7, 16], %v: f32[1, 13, 16]) {
)";
  text += heads("bq", "b", 7) + heads("bk", "b", 7) + heads("bv", "b", 7);
  text += "  %ba = Attention(%bq, %bk, %bv) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("bo", "ba", 7);
  text += "  %b1 = Add(%b, %bo)\n  %t = Concat(%a, %b1) {axis = 1}\n";
  for (const char* part : {"q", "k", "v"}) {
    text += heads(str_cat("t", part), "t", 11) + heads(str_cat("v", part), "v", 13);
    text += str_cat("  %j", part, " = Concat(%v", part, ", %t", part, ") {axis = 1}\n");
  }
  text += R"(  %ja = Attention(%jq, %jk, %jv) {scale = 0.5, is_causal = 0, layout = "bshd"}
  %jf = Reshape(%ja) {shape = dims[1, 24, 16]}
  %jov = Slice(%jf) {axes = [1], starts = dims[0], ends = dims[13], steps = [1]}
  %jot = Slice(%jf) {axes = [1], starts = dims[13], ends = dims[24], steps = [1]}
  %wov = constant f32[16, 16] data
  %wot = constant f32[16, 16] data
  %pov = MatMul(%jov, %wov)
  %pot = MatMul(%jot, %wot)
  %v1 = Add(%v, %pov)
  %t1 = Add(%t, %pot)
  %one = Concat(%v1, %t1) {axis = 1}
)";
  text += heads("sq", "one", 24) + heads("sk", "one", 24) + heads("sv", "one", 24);
  text += "  %sa = Attention(%sq, %sk, %sv) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("so", "sa", 24);
  return text + R"(  %one1 = Add(%one, %so)
  %y = Slice(%one1) {axes = [1], starts = dims[0], ends = dims[13], steps = [1]}
  return %y
})";
}

TEST_F(FewerExchangesTest, SequencesOfSequencesStayInTheirSegments) {
  const std::string text = nested_sequences();
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    CompileOptions with = options(mesh);
    with.detect_invariant_inputs = false;
    const CompiledModel compiled = compile_text(text, with);
    EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 4}, {"AllGather", 1}}))
        << compiled.explain;
    EXPECT_THAT(compiled.explain, ::testing::HasSubstr("one: f32 [1, 24/cp(13 | 4 | 7), 16]"));
  }
  expect_equal(text, {{"a", random_f32({1, 4, 16}, 1)},
                      {"b", random_f32({1, 7, 16}, 2)},
                      {"v", random_f32({1, 13, 16}, 3)}});
}

// A result in segments: all of them travel in one transfer.
TEST_F(FewerExchangesTest, SegmentsAreGatheredTogether) {
  std::string text = "graph @g (%a: f32[1, 4, 16], %b: f32[1, 7, 16]) {\n";
  text += heads("aq", "a", 4) + heads("bq", "b", 7);
  text += R"(  %q = Concat(%aq, %bq) {axis = 1}
  %y = Attention(%q, %q, %q) {scale = 0.5, is_causal = 0, layout = "bshd"}
  %c = Reshape(%y) {shape = dims[1, 11, 16]}
  %ya = Slice(%c) {axes = [1], starts = dims[0], ends = dims[4], steps = [1]}
  %yb = Slice(%c) {axes = [1], starts = dims[4], ends = dims[11], steps = [1]}
  return %ya, %yb
})";
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_EQ(exchanges_of(compiled)["AllGather"], 1) << compiled.explain;
  }
  expect_equal(text, {{"a", random_f32({1, 4, 16}, 1)}, {"b", random_f32({1, 7, 16}, 2)}});
}

// A bias that products make of pairs of tokens, twice, with an update between that sums over them.
TEST_F(FewerExchangesTest, APairRepresentationIsSplitAlongItsQueries) {
  std::string text = "graph @g (%x: f32[1, 10, 16], %z: f32[1, 10, 10, 6]) {\n";
  text += R"(  %wz = constant f32[6, 6] data
  %z0 = MatMul(%z, %wz)
)";
  std::string x = "x";
  for (const int layer : {0, 1}) {
    const std::string l = str_cat("l", layer);
    text += heads(l + "q", x, 10) + heads(l + "k", x, 10) + heads(l + "v", x, 10);
    text += str_cat("  %", l, "wb = constant f32[6, 4] data\n  %", l, "b0 = MatMul(%z", layer,
                    ", %", l, "wb)\n  %", l, "b = Transpose(%", l, "b0) {perm = [0, 3, 1, 2]}\n  %",
                    l, "a = Attention(%", l, "q, %", l, "k, %", l, "v, %", l,
                    "b) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n");
    text += merged(l + "o", l + "a", 10);
    text += str_cat("  %x", layer, " = Add(%", x, ", %", l, "o)\n");
    x = str_cat("x", layer);
    if (layer == 1) break;
    text += R"(  %wu = constant f32[16, 6] data
  %u = MatMul(%x0, %wu)
  %uc = Reshape(%u) {shape = dims[1, 1, 10, 6]}
  %z1 = Add(%z0, %uc)
)";
  }
  text += "  return %x1\n}";
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_THAT(compiled.explain, ::testing::HasSubstr("l1b: f32 [1, 4, 10/cp, 10]"));
    // Keys and values of the second layer, the update of the columns, the result. Over 4 ranks less
    // moves by heads: of q, k and v 30 rows of a head that ranks lack and 10 * 3 heads of results
    // come to 480 numbers, and the bias has 10 more for each of 30 rows.
    const AttentionChoice& second = compiled.attentions[1];
    if (std::string_view(mesh) == "cp=4") {
      EXPECT_EQ(second.bytes_by_heads, 4.0 * (480 + 300));
      EXPECT_EQ(second.bytes_by_keys, 4.0 * 3 * 10 * 16 * 2);
      EXPECT_EQ(second.way, "heads");
      EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 2}, {"AllGather", 2}}))
          << compiled.explain;
    } else {
      EXPECT_EQ(second.way, "keys");
      EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllGather", 3}})) << compiled.explain;
    }
  }
  expect_equal(text, {{"x", random_f32({1, 10, 16}, 1)}, {"z", random_f32({1, 10, 10, 6}, 2)}});
}

// Triangle multiplication: each pair (i, j) sums over all k what (i, k) and (j, k) have. Over 2
// ranks the other rank's half of one operand moves least, over 4 the channels of both and of the
// result.
TEST_F(FewerExchangesTest, ProductsOfPairsMoveTheLeast) {
  std::string text = "graph @g (%x: f32[1, 12, 16]) {\n";
  for (const char* part : {"r", "c"}) {
    text += str_cat("  %", part, "w = constant f32[16, 8] data\n  %", part, " = MatMul(%x, %", part,
                    "w)\n");
  }
  text += R"(  %rr = Reshape(%r) {shape = dims[1, 12, 1, 8]}
  %cc = Reshape(%c) {shape = dims[1, 1, 12, 8]}
  %z = Mul(%rr, %cc)
  %lw = constant f32[8, 8] data
  %mw = constant f32[8, 8] data
  %l = MatMul(%z, %lw)
  %m = MatMul(%z, %mw)
  %lt = Transpose(%l) {perm = [0, 3, 1, 2]}
  %mt = Transpose(%m) {perm = [0, 3, 2, 1]}
  %t = MatMul(%lt, %mt)
  %tt = Transpose(%t) {perm = [0, 2, 3, 1]}
  %z2 = Add(%z, %tt)
  %bw = constant f32[8, 4] data
  %b = MatMul(%z2, %bw)
  %bias = Transpose(%b) {perm = [0, 3, 1, 2]}
)";
  text += heads("q", "x", 12) + heads("k", "x", 12) + heads("v", "x", 12);
  text += R"(  %a = Attention(%q, %k, %v, %bias) {scale = 0.5, is_causal = 0, layout = "bshd"}
)";
  text += merged("y", "a", 12) + "  return %y\n}";
  const auto bytes_of = [&](const CompiledModel& compiled, std::string_view value) {
    std::int64_t bytes = 0;
    for (const ExchangeInfo& exchange : compiled.exchanges) {
      if (std::find(exchange.values.begin(), exchange.values.end(), value) ==
          exchange.values.end()) {
        continue;
      }
      for (int rank = 0; rank < compiled.mesh.num_ranks(); ++rank) {
        SymbolMap symbols;
        compiled.mesh.bind(rank, &symbols);
        bytes += *exchange.sent_bytes.evaluate(symbols);
      }
    }
    return bytes;
  };
  const std::int64_t all_pairs = 4 * 12 * 12 * 8;
  EXPECT_EQ(bytes_of(compile_text(text, options("cp=2")), "mt"), all_pairs);
  const CompiledModel four = compile_text(text, options("cp=4"));
  EXPECT_EQ(bytes_of(four, "mt"), 2 * all_pairs * 3 / 4) << four.explain;
  EXPECT_EQ(bytes_of(four, "lt"), 2 * all_pairs * 3 / 4);  // in one transfer
  EXPECT_EQ(exchanges_of(four)["AllGather"], 1);           // of the result
  expect_equal(text, {{"x", random_f32({1, 12, 16}, 1)}});
}

// A convolution over the places of an image between attentions, as in a gated convolutional MLP.
TEST_F(FewerExchangesTest, TokensAreCutByRowsForConvolutionsBetweenAttentions) {
  std::string text = "graph @g (%x: f32[1, 24, 16]) {\n";
  text += heads("q", "x", 24) + heads("k", "x", 24) + heads("v", "x", 24);
  text += "  %a = Attention(%q, %k, %v) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("o", "a", 24);
  text += R"(  %g = Reshape(%o) {shape = dims[1, 8, 3, 16]}
  %c = Transpose(%g) {perm = [0, 3, 1, 2]}
  %wc = constant f32[16, 16, 3, 3] data
  %d = Conv(%c, %wc) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
  %e = Transpose(%d) {perm = [0, 2, 3, 1]}
  %f = Reshape(%e) {shape = dims[1, 24, 16]}
  %y = Add(%o, %f)
  return %y
})";
  for (const char* mesh : {"cp=2", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    Counts kinds = exchanges_of(compiled);
    EXPECT_EQ(kinds["Halo"], 1) << compiled.explain;
    EXPECT_EQ(kinds["AllGather"], 1) << compiled.explain;
    EXPECT_THAT(compiled.explain, ::testing::HasSubstr("d: f32 [1, 16, 8/cp, 3]"));
  }
  expect_equal(text, {{"x", random_f32({1, 24, 16}, 1)}});
}

// Attention over five frames at each of twelve places, and nothing else.
TEST_F(FewerExchangesTest, ManyShortSequencesAreSharedOutWhole) {
  std::string text = "graph @g (%x: f32[12, 5, 16]) {\n";
  for (const char* part : {"q", "k", "v"}) {
    text +=
        str_cat("  %", part, ".w = constant f32[16, 16] data\n  %", part, ".p = MatMul(%x, %", part,
                ".w)\n  %", part, " = Reshape(%", part, ".p) {shape = dims[12, 5, 4, 4]}\n");
  }
  text += R"(  %a = Attention(%q, %k, %v) {scale = 0.5, is_causal = 0, layout = "bshd"}
  return %a
})";
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllGather", 1}})) << compiled.explain;
    EXPECT_THAT(compiled.explain, ::testing::HasSubstr("a: f32 [12/cp, 5, 4, 4]"));
  }
  expect_equal(text, {{"x", random_f32({12, 5, 16}, 1)}});
}

// Tokens of all frames attend to each other, then each frame's to what belongs to it.
TEST_F(FewerExchangesTest, AttentionWithinGroupsOfTokensTakesHeads) {
  std::string text = "graph @g (%x: f32[1, 15, 16], %face: f32[3, 2, 4, 4]) {\n";
  text += heads("q", "x", 15) + heads("k", "x", 15) + heads("v", "x", 15);
  text += "  %a = Attention(%q, %k, %v) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("o", "a", 15) + heads("r", "o", 15);
  text += R"(  %g = Reshape(%r) {shape = dims[3, 5, 4, 4]}
  %c = Attention(%g, %face, %face) {scale = 0.5, is_causal = 0, layout = "bshd"}
  %d = Reshape(%c) {shape = dims[1, 15, 16]}
  %y = Add(%o, %d)
  return %y
})";
  for (const char* mesh : {"cp=2", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_THAT(compiled.explain, ::testing::HasSubstr("c: f32 [3, 5, 4/cp, 4]"));
    EXPECT_EQ(exchanges_of(compiled)["AllGather"], 1) << compiled.explain;
  }
  expect_equal(text, {{"x", random_f32({1, 15, 16}, 1)}, {"face", random_f32({3, 2, 4, 4}, 2)}});
}

// Text that has an attention of its own, then is what every layer of the video looks at.
TEST_F(FewerExchangesTest, AContextOfManyLayersIsGatheredOnce) {
  std::string text = "graph @g (%x: f32[1, 40, 16], %c: f32[1, 6, 16]) {\n";
  text += "  %wc = constant f32[16, 16] data\n  %c0 = MatMul(%c, %wc)\n";
  text += heads("cq", "c0", 6) + heads("ck", "c0", 6) + heads("cv", "c0", 6);
  text += "  %ca = Attention(%cq, %ck, %cv) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("co", "ca", 6);
  text += "  %c1 = Add(%c0, %co)\n";
  std::string x = "x";
  constexpr int kLayers = 3;
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string l = str_cat("l", layer);
    text += heads(l + "q", x, 40) + heads(l + "k", "c1", 6) + heads(l + "v", "c1", 6);
    text += str_cat("  %", l, "a = Attention(%", l, "q, %", l, "k, %", l,
                    "v) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n");
    text += merged(l + "o", l + "a", 40);
    text += str_cat("  %x", layer, " = Add(%", x, ", %", l, "o)\n");
    x = str_cat("x", layer);
  }
  text += str_cat("  return %", x, "\n}");
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    CompileOptions with = options(mesh);
    with.detect_invariant_inputs = false;
    const CompiledModel compiled = compile_text(text, with);
    // The context and the result.
    EXPECT_EQ(exchanges_of(compiled)["AllGather"], 2) << compiled.explain;
  }
  expect_equal(text, {{"x", random_f32({1, 40, 16}, 1)}, {"c", random_f32({1, 6, 16}, 2)}});
}

// The last layer's text is not read: it asks nothing, and nothing is worked out for it.
TEST_F(FewerExchangesTest, RowsThatNobodyReadsAreNotMade) {
  const auto before = parse_model(nested_sequences());
  ASSERT_TRUE(simplify(*before, options()).ok());
  ASSERT_TRUE(drop_unread_rows(*before, options()).ok());
  const Node* last = nullptr;
  for (const auto& node : before->nodes()) {
    if (node->type() == "Attention") last = node.get();
  }
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(str_cat(last->input(0)->shape()), "[1, 13, 4, 4]");
  EXPECT_EQ(str_cat(last->input(1)->shape()), "[1, 24, 4, 4]");
  EXPECT_EQ(str_cat(before->outputs()[0]->shape()), "[1, 13, 16]");
}

// A prompt of 4 words is filled up to 7, and a constant mask closes those: two layers over 9
// patches and the prompt, of which the patches are read.
std::string filled_prompt(bool adds) {
  std::string text = "graph @g (%v: f32[1, 9, 16], %t: f32[1, 4, 16], %p: f32[1, 3, 16]) {\n";
  text += "  %filled = Concat(%t, %p) {axis = 1}\n  %s0 = Concat(%v, %filled) {axis = 1}\n";
  std::string open;
  for (int key = 0; key < 16; ++key) {
    open += str_cat(key == 0 ? "" : ", ", key < 13 ? "true" : "false");
  }
  text += str_cat("  %open = constant bool[1, 1, 1, 16] [", open, "]\n");
  text += "  %added = constant f32[1, 1, 1, 16] data\n";
  for (int layer = 0; layer < 2; ++layer) {
    const std::string l = str_cat("l", layer);
    const std::string x = str_cat("s", layer);
    text += heads(l + "q", x, 16) + heads(l + "k", x, 16) + heads(l + "v", x, 16);
    text +=
        str_cat("  %", l, "a = Attention(%", l, "q, %", l, "k, %", l, "v, %",
                adds ? "added" : "open", ") {scale = 0.5", ", is_causal = 0, layout = \"bshd\"}\n");
    text +=
        merged(l + "o", l + "a", 16) + str_cat("  %s", layer + 1, " = Add(%", x, ", %", l, "o)\n");
  }
  return text + R"(  %y = Slice(%s2) {axes = [1], starts = dims[0], ends = dims[9], steps = [1]}
  return %y
})";
}

// Their queries then have no reader either, and the filling is not worked on at all.
TEST_F(FewerExchangesTest, KeysThatAConstantMaskClosesAreNotMade) {
  for (const bool adds : {false, true}) {
    const auto model = parse_model(filled_prompt(adds));
    if (adds) {
      Tensor mask = model->find_value("added")->constant();  // shares storage
      for (int key = 13; key < 16; ++key) mask.mutable_data_as<float>()[key] = -INFINITY;
    }
    const auto graph = model->clone();
    ASSERT_TRUE(simplify(*graph, options()).ok());
    ASSERT_TRUE(drop_unread_rows(*graph, options()).ok());
    std::vector<std::string> shapes;
    for (const auto& node : graph->nodes()) {
      if (node->type() != "Attention") continue;
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
        shapes.push_back(str_cat(node->input(i)->shape()));
      }
      EXPECT_EQ(node->input(3) != nullptr, adds);  // nothing is closed any more
    }
    EXPECT_THAT(shapes, ::testing::ElementsAre("[1, 13, 4, 4]", "[1, 13, 4, 4]", "[1, 13, 4, 4]",
                                               "[1, 9, 4, 4]", "[1, 13, 4, 4]", "[1, 13, 4, 4]"));
    EXPECT_TRUE(graph->find_value("p")->users().empty());
    const auto compiled = compile(model->clone(), options("cp=4"));
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    EXPECT_EQ(exchanges_of(*compiled), (Counts{{"AllToAll", 4}, {"AllGather", 1}}));
    expect_equal(*model, {{"v", random_f32({1, 9, 16}, 1)},
                          {"t", random_f32({1, 4, 16}, 2)},
                          {"p", random_f32({1, 3, 16}, 3)}});
  }
}

// The first attention's prompt is steady, so that gathering the patches' keys is cheaper; it needs
// the rows of its queries of the mask that the second, which takes heads, needs whole.
TEST_F(FewerExchangesTest, AMaskThatCostsNothingIsMadeWholeForAttentionsOfBothKinds) {
  std::string text = "graph @g (%t: f32[1, 20, 16], %v: f32[1, 13, 16], %m: f32[1, 1, 33, 33]) {\n";
  text += "  %two = constant f32[] [2.0]\n  %mask = Mul(%m, %two)\n";
  text += "  %s0 = Concat(%t, %v) {axis = 1}\n";
  for (int layer = 0; layer < 2; ++layer) {
    const std::string l = str_cat("l", layer);
    const std::string x = str_cat("s", layer);
    text += heads(l + "q", x, 33) + heads(l + "k", x, 33) + heads(l + "v", x, 33);
    text += str_cat("  %", l, "a = Attention(%", l, "q, %", l, "k, %", l, "v, %mask) {scale = 0.5",
                    ", is_causal = 0, layout = \"bshd\"}\n");
    text +=
        merged(l + "o", l + "a", 33) + str_cat("  %s", layer + 1, " = Add(%", x, ", %", l, "o)\n");
  }
  text += R"(  %y = Slice(%s2) {axes = [1], starts = dims[20], ends = dims[33], steps = [1]}
  return %y
})";
  CompileOptions cp = options("cp=2");
  cp.invariant_inputs = {"t"};
  const CompiledModel compiled = compile_text(text, cp);
  ASSERT_EQ(compiled.attentions.size(), 2U);
  EXPECT_EQ(compiled.attentions[0].way, "keys") << compiled.explain;
  EXPECT_EQ(compiled.attentions[1].way, "heads") << compiled.explain;
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    for (const std::string& value : exchange.values)
      EXPECT_EQ(value.find("mask"), std::string::npos);
  }
  expect_equal(text, {{"t", random_f32({1, 20, 16}, 1)},
                      {"v", random_f32({1, 13, 16}, 2)},
                      {"m", random_f32({1, 1, 33, 33}, 3)}});
}

// A narrow product behind the text part of a joint attention: its sums would take fewer bytes, but
// a transfer of their own beside the video's.
TEST_F(FewerExchangesTest, PartsOfOneResultTravelTogether) {
  std::string text = "graph @g (%t: f32[1, 11, 16], %v: f32[1, 24, 16]) {\n";
  for (const char* part : {"q", "k", "v"}) {
    text += heads(str_cat("t", part), "t", 11) + heads(str_cat("v", part), "v", 24);
    text += str_cat("  %j", part, " = Concat(%v", part, ", %t", part, ") {axis = 1}\n");
  }
  text += R"(  %ja = Attention(%jq, %jk, %jv) {scale = 0.5, is_causal = 0, layout = "bshd"}
  %jf = Reshape(%ja) {shape = dims[1, 35, 16]}
  %jov, %jot = Split(%jf) {axis = 1, sizes = dims[24, 11]}
  %wov = constant f32[16, 16] data
  %wot = constant f32[16, 2] data
  %pov = MatMul(%jov, %wov)
  %pot = MatMul(%jot, %wot)
  return %pov, %pot
})";
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(text, options(mesh));
    EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 2}, {"AllGather", 1}}))
        << compiled.explain;
  }
  expect_equal(text, {{"t", random_f32({1, 11, 16}, 1)}, {"v", random_f32({1, 24, 16}, 2)}});
}

// One row of a result that comes together anyway: read there, not brought by an exchange of its
// own.
TEST_F(FewerExchangesTest, ARowOfTheResultIsReadWhereItIsWhole) {
  std::string text = "graph @g (%x: f32[1, 24, 16], %row: i64[1]) {\n";
  text += "  %wx = constant f32[16, 16] data\n  %h = MatMul(%x, %wx)\n";
  text += heads("q", "h", 24) + heads("k", "h", 24) + heads("v", "h", 24);
  text += "  %a = Attention(%q, %k, %v) {scale = 0.5, is_causal = 0, layout = \"bshd\"}\n";
  text += merged("y", "a", 24);
  text += R"(  %z = Gather(%y, %row) {axis = 1}
  return %y, %z
})";
  CompileOptions bytes_alone = options("cp=4");
  bytes_alone.rates.seconds_per_exchange = 0;
  EXPECT_EQ(exchanges_of(compile_text(text, bytes_alone)),
            (Counts{{"AllToAll", 2}, {"AllGather", 1}}));
}

}  // namespace
}  // namespace tutti
