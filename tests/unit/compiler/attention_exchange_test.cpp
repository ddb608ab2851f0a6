// Which rows travel for an attention, by which way, and what `--explain` says of it.
#include "compiler/attention_exchange.h"

#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int kHeadDim = 4;

using Counts = std::map<std::string, int>;

Counts exchanges_of(const CompiledModel& compiled, bool in_prologue = false) {
  Counts kinds;
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    if (exchange.in_prologue == in_prologue) ++kinds[exchange.kind];
  }
  return kinds;
}

std::string product(const std::string& y, const std::string& x, int from, int to) {
  return str_cat("  %", y, ".w = constant f32[", from, ", ", to, "] data\n  %", y, " = MatMul(%", x,
                 ", %", y, ".w)\n");
}

// Projection of `x` and its heads.
std::string heads(const std::string& y, const std::string& x, int tokens, int count) {
  return product(y + ".p", x, 16, count * kHeadDim) + str_cat("  %", y, " = Reshape(%", y,
                                                              ".p) {shape = dims[1, ", tokens, ", ",
                                                              count, ", ", kHeadDim, "]}\n");
}

std::string attention(const std::string& y, const std::string& q, const std::string& k,
                      const std::string& v, int tokens, bool is_causal = false) {
  return str_cat("  %", y, ".a = Attention(%", q, ", %", k, ", %", v,
                 ") {scale = 0.5, is_causal = ", is_causal ? 1 : 0, ", layout = \"bshd\"}\n  %", y,
                 ".f = Reshape(%", y, ".a) {shape = dims[1, ", tokens, ", 16]}\n") +
         product(y, y + ".f", 16, 16);
}

// One attention of 4 query heads.
std::string one_attention(int groups, int tokens, bool is_causal = false) {
  std::string text = str_cat("graph @g (%x: f32[1, ", tokens, ", 16]) {\n");
  text += product("h", "x", 16, 16);
  text += heads("q", "h", tokens, 4) + heads("k", "h", tokens, groups) +
          heads("v", "h", tokens, groups);
  return text + attention("y", "q", "k", "v", tokens, is_causal) + "  return %y\n}";
}

// Text (6 tokens, steady) in front of video (15), as one stream of two layers; the video is read.
std::string one_stream() {
  std::string text = "graph @g (%video: f32[1, 15, 16], %text: f32[1, 6, 16]) {\n";
  text += product("t", "text", 16, 16) + product("v", "video", 16, 16);
  text += "  %s0 = Concat(%t, %v) {axis = 1}\n";
  for (int layer = 0; layer < 2; ++layer) {
    const std::string l = str_cat("l", layer, ".");
    const std::string x = str_cat("s", layer);
    text +=
        str_cat("  %", l, "n = RMSNormalization(%", x, ") {axis = 2, epsilon = 0.0009765625}\n");
    text += heads(l + "q", l + "n", 21, 4) + heads(l + "k", l + "n", 21, 4) +
            heads(l + "v", l + "n", 21, 4);
    text += attention(l + "y", l + "q", l + "k", l + "v", 21);
    text += str_cat("  %", l, "r = Add(%", x, ", %", l, "y)\n");
    // A gated MLP reads its rows twice.
    text += product(l + "g", l + "r", 16, 8) + product(l + "u", l + "r", 16, 8);
    text += str_cat("  %", l, "h = Mul(%", l, "g, %", l, "u)\n") + product(l + "o", l + "h", 8, 16);
    text += str_cat("  %s", layer + 1, " = Add(%", l, "r, %", l, "o)\n");
  }
  return text + R"(  %y = Slice(%s2) {axes = [1], starts = dims[6], ends = dims[21], steps = [1]}
  return %y
})";
}

class AttentionExchangeTest : public CompilerTest {
 protected:
  // Over 2 to 5 ranks, the results of one rank.
  void expect_equal(const std::string& text, const NamedTensors& inputs) {
    const auto whole = parse_model(text);
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs, {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"cp=2", "cp=3", "cp=4", "cp=5"}) {
      const auto found = interpreter.run(compile_text(text, options(mesh)), inputs);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
      }
    }
  }

  AttentionBytes bytes_of(int groups, int tokens, int ranks, const TravellingRows& rows) {
    const auto graph = parse_model(one_attention(groups, tokens));
    return attention_bytes(*find_node(*graph, "Attention"), rows, ranks, SizeEstimate({}));
  }
};

// Counted by hand: of 12 tokens 6 are elsewhere at 2 ranks.
TEST_F(AttentionExchangeTest, BytesOfEitherWay) {
  // Heads: 6 * 2 of q, k, v and results each, for both ranks. Keys: 6 * 4 of k and v for both.
  const AttentionBytes equal = bytes_of(4, 12, 2, {Dim(12), Dim(12)});
  EXPECT_EQ(equal.heads, 4.0 * kHeadDim * 2 * (4 * 6 * 2));
  EXPECT_EQ(equal.keys, 4.0 * kHeadDim * 2 * (2 * 6 * 4));
  // A key head a rank: half of k and v.
  const AttentionBytes grouped = bytes_of(2, 12, 2, {Dim(12), Dim(12)});
  EXPECT_EQ(grouped.heads, 4.0 * kHeadDim * 2 * (2 * 6 * 2 + 2 * 6 * 1));
  EXPECT_EQ(grouped.keys, 4.0 * kHeadDim * 2 * (2 * 6 * 2));
  // 8 of the queries and keys change; all results come back.
  const AttentionBytes steady = bytes_of(4, 12, 2, {Dim(8), Dim(8)});
  EXPECT_EQ(steady.heads, 4.0 * kHeadDim * 2 * (3 * 4 * 2 + 6 * 2));
  EXPECT_EQ(steady.keys, 4.0 * kHeadDim * 2 * (2 * 4 * 4));
  EXPECT_EQ(bytes_of(2, 12, 8, {Dim(12), Dim(12)}).heads, std::nullopt);
}

TEST_F(AttentionExchangeTest, GroupedKeysAreGatheredWhereThatMovesLess) {
  const Counts by_keys = {{"AllGather", 2}};  // keys and values, and the result
  const Counts by_heads = {{"AllToAll", 2}, {"AllGather", 1}};
  const std::string grouped = one_attention(2, 12);
  EXPECT_EQ(exchanges_of(compile_text(grouped, options("cp=2"))), by_keys);
  EXPECT_EQ(exchanges_of(compile_text(grouped, options("cp=4"))), by_heads);
  CompileOptions chosen = options("cp=2");
  chosen.attention_exchange = AttentionExchange::kHeads;
  EXPECT_EQ(exchanges_of(compile_text(grouped, chosen)), by_heads);
  // As many bytes: heads, which hold no whole keys.
  EXPECT_EQ(exchanges_of(compile_text(one_attention(4, 12), options("cp=2"))), by_heads);
  expect_equal(grouped, {{"x", random_f32({1, 12, 16}, 1)}});
}

// Differential attention: two of 3 and 4 tensors by heads, of 1 and 2 by keys.
TEST_F(AttentionExchangeTest, AttentionsOfTheSameValuesChooseTogether) {
  std::string text = "graph @g (%x: f32[1, 12, 16]) {\n" + product("h", "x", 16, 16);
  for (const char* part : {"q", "k", "r", "l", "v"}) text += heads(part, "h", 12, 4);
  text += attention("a", "q", "k", "v", 12) + attention("b", "r", "l", "v", 12);
  text += "  %y = Sub(%a, %b)\n  return %y\n}";
  EXPECT_EQ(exchanges_of(compile_text(text, options("cp=2")))["AllToAll"], 0);
  EXPECT_EQ(exchanges_of(compile_text(text, options("cp=4")))["AllGather"], 1);
  expect_equal(text, {{"x", random_f32({1, 12, 16}, 1)}});
}

// Two streams that ask each other, 5 and 40 tokens: the short one's keys are gathered, the long
// one's heads exchanged for the few queries, whatever a transfer of its own costs.
TEST_F(AttentionExchangeTest, ALongContextIsExchangedByHeads) {
  std::string text = "graph @g (%a: f32[1, 5, 16], %b: f32[1, 40, 16]) {\n";
  text += product("x", "a", 16, 16) + product("z", "b", 16, 16);
  text += heads("xq", "x", 5, 4) + heads("zk", "z", 40, 4) + heads("zv", "z", 40, 4);
  text += attention("o", "xq", "zk", "zv", 5);
  text += heads("zq", "z", 40, 4) + heads("xk", "x", 5, 4) + heads("xv", "x", 5, 4);
  text += attention("p", "zq", "xk", "xv", 40) + "  return %o, %p\n}";
  CompileOptions all_vary = options("cp=4");
  all_vary.detect_invariant_inputs = false;
  const CompiledModel compiled = compile_text(text, all_vary);
  ASSERT_EQ(compiled.attentions.size(), 2U);
  EXPECT_EQ(compiled.attentions[0].way, "heads") << compiled.explain;
  EXPECT_EQ(compiled.attentions[1].way, "keys") << compiled.explain;
  // Queries, keys, values; results; the short one's keys; both outputs.
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 2}, {"AllGather", 2}}))
      << compiled.explain;
  // A long prompt's keys do not travel in a call: the queries stay.
  CompileOptions steady = options("cp=4");
  steady.invariant_inputs = {"b"};
  EXPECT_EQ(exchanges_of(compile_text(text, steady))["AllToAll"], 0);
  expect_equal(text, {{"a", random_f32({1, 5, 16}, 1)}, {"b", random_f32({1, 40, 16}, 2)}});
}

// Of the second layer the last token is read: its query is made on every rank, and meets all keys
// of a head there.
TEST_F(AttentionExchangeTest, OneQueryMeetsItsKeysByHeads) {
  std::string text = "graph @g (%x: f32[1, 12, 16]) {\n" + product("h", "x", 16, 16);
  text += heads("q", "h", 12, 4) + heads("k", "h", 12, 4) + heads("v", "h", 12, 4);
  text += attention("a", "q", "k", "v", 12) + "  %r = Add(%h, %a)\n";
  text += heads("rq", "r", 12, 4) + heads("rk", "r", 12, 4) + heads("rv", "r", 12, 4);
  text += attention("b", "rq", "rk", "rv", 12);
  text += R"(  %y = Slice(%b) {axes = [1], starts = dims[11], ends = dims[12], steps = [1]}
  return %y
})";
  const CompiledModel compiled = compile_text(text, options("cp=4"));
  ASSERT_EQ(compiled.attentions.size(), 2U);
  EXPECT_EQ(compiled.attentions[1].way, "heads") << compiled.explain;
  // Of keys and values, and one query and result, instead of 3 times 2 * 12 rows of 4 heads.
  EXPECT_EQ(compiled.attentions[1].bytes_by_heads, 4.0 * kHeadDim * 3 * (2 * 12 + 2));
  EXPECT_EQ(compiled.attentions[1].bytes_by_keys, 4.0 * kHeadDim * 3 * 2 * 12 * 4);
  expect_equal(text, {{"x", random_f32({1, 12, 16}, 1)}});
}

// The last queries see all keys, the first few: over many tokens that costs more than bytes do.
TEST_F(AttentionExchangeTest, LongCausalQueriesAreNotLeftToTheLastRank) {
  EXPECT_EQ(exchanges_of(compile_text(one_attention(2, 12, true), options("cp=2")))["AllToAll"], 0);
  EXPECT_EQ(exchanges_of(compile_text(one_attention(2, 100000, true), options("cp=2")))["AllToAll"],
            2);
  expect_equal(one_attention(2, 12, true), {{"x", random_f32({1, 12, 16}, 1)}});
}

TEST_F(AttentionExchangeTest, ExplainSaysWhatEitherWayMoves) {
  const CompiledModel gathered = compile_text(one_attention(2, 12), options("cp=2"));
  EXPECT_THAT(gathered.explain,
              HasSubstr("along cp: gathers keys: 768B by all ranks; exchanging heads: 1.15 kB"));
  const CompiledModel exchanged = compile_text(one_attention(4, 12), options("cp=4"));
  EXPECT_THAT(exchanged.explain,
              HasSubstr("along cp: exchanges heads: 2.3 kB by all ranks; gathering keys: 4.61 kB"));
  EXPECT_THAT(compile_text(one_attention(1, 12), options("cp=8")).explain,
              HasSubstr("exchanging heads: heads run out"));
}

// The prompt's rows of the first layer are worked out and exchanged once a prompt; in the last one
// nothing is asked for them, though two products read each row.
TEST_F(AttentionExchangeTest, SteadyAndUnreadRowsStayAtHome) {
  const CompiledModel compiled = compile_text(one_stream(), options("cp=4"));
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 4}, {"AllGather", 1}}))
      << compiled.explain;
  EXPECT_EQ(exchanges_of(compiled, true), (Counts{{"AllToAll", 1}}));
  std::vector<std::int64_t> moved;  // by all ranks
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    std::int64_t bytes = 0;
    for (int rank = 0; rank < 4; ++rank) {
      SymbolMap symbols;
      compiled.mesh.bind(rank, &symbols);
      bytes += *exchange.sent_bytes.evaluate(symbols);
    }
    moved.push_back(bytes / (4 * kHeadDim * 3));
  }
  // Each row of 4 heads goes to 3 of 4 ranks, a head each, or comes from them. Text in the
  // prologue: q, k, v. Then video's, all results; video's queries, all keys, video's results; the
  // output, whole to each.
  EXPECT_THAT(moved, ::testing::ElementsAre(3 * 6, 3 * 15, 21, 15 + 2 * 21, 15, 4 * 15));
  expect_equal(one_stream(),
               {{"video", random_f32({1, 15, 16}, 1)}, {"text", random_f32({1, 6, 16}, 2)}});
}

// A prompt of two parts, scaled as one beside the video, whose scale changes: still only the
// video's rows travel in a call.
TEST_F(AttentionExchangeTest, SteadyRowsMayComeInFinerStretches) {
  std::string text =
      "graph @g (%video: f32[1, 15, 16], %a: f32[1, 2, 16], %b: f32[1, 4, 16], %s: f32[1, 1, 16]) "
      "{\n";
  text += product("ta", "a", 16, 16) + product("tb", "b", 16, 16) + product("v", "video", 16, 16);
  text += R"(  %x = Concat(%ta, %tb, %v) {axis = 1}
  %one = constant f32[1, 1, 16] data
  %mt = Expand(%one) {shape = dims[1, 6, 16]}
  %mv = Expand(%s) {shape = dims[1, 15, 16]}
  %m = Concat(%mt, %mv) {axis = 1}
  %h = Mul(%x, %m)
)";
  text += heads("q", "h", 21, 4) + heads("k", "h", 21, 4) + heads("w", "h", 21, 4);
  text += attention("o", "q", "k", "w", 21) + "  %r = Add(%x, %o)\n";
  text += R"(  %y = Slice(%r) {axes = [1], starts = dims[6], ends = dims[21], steps = [1]}
  return %y
})";
  CompileOptions cp = options("cp=4");
  cp.invariant_inputs = {"a", "b"};
  const CompiledModel compiled = compile_text(text, cp);
  std::int64_t moved = 0;  // to and from the attention, by all ranks
  for (const ExchangeInfo& exchange : compiled.exchanges) {
    if (exchange.in_prologue || exchange.kind != "AllToAll") continue;
    for (int rank = 0; rank < 4; ++rank) {
      SymbolMap symbols;
      compiled.mesh.bind(rank, &symbols);
      moved += *exchange.sent_bytes.evaluate(symbols);
    }
  }
  EXPECT_EQ(moved, 4 * kHeadDim * 3 * (3 * 15 + 15)) << compiled.explain;
  expect_equal(text, {{"video", random_f32({1, 15, 16}, 1)},
                      {"a", random_f32({1, 2, 16}, 2)},
                      {"b", random_f32({1, 4, 16}, 3)},
                      {"s", random_f32({1, 1, 16}, 4)}});
}

// Rows that fill up a sequence are dropped in the end: nobody joined them there.
TEST_F(AttentionExchangeTest, PaddingThatNobodyReadsIsASegment) {
  std::string text = "graph @g (%x: f32[1, 13, 16]) {\n";
  text += R"(  %s = Pad(%x) {axes = [1], before = dims[0], after = dims[3], mode = "edge"}
)";
  text += product("h", "s", 16, 16);
  text += heads("q", "h", 16, 4) + heads("k", "h", 16, 4) + heads("v", "h", 16, 4);
  text += attention("a", "q", "k", "v", 16) + product("o", "a", 16, 16);
  text += R"(  %y = Slice(%o) {axes = [1], starts = dims[0], ends = dims[13], steps = [1]}
  return %y
})";
  const CompiledModel compiled = compile_text(text, options("cp=4"));
  EXPECT_EQ(exchanges_of(compiled), (Counts{{"AllToAll", 2}, {"AllGather", 1}}))
      << compiled.explain;
  EXPECT_THAT(compiled.explain, HasSubstr("[1, 16/cp(13 | 3), 4, 4]"));
  expect_equal(text, {{"x", random_f32({1, 13, 16}, 1)}});
}

// Causal queries that are read begin further back.
TEST_F(AttentionExchangeTest, ReadRowsOfACausalAttentionKeepTheirPlaces) {
  std::string text = "graph @g (%x: f32[1, 9, 16]) {\n";
  text += heads("q", "x", 9, 4) + heads("k", "x", 9, 4) + heads("v", "x", 9, 4);
  text += attention("a", "q", "k", "v", 9, true) + product("o", "a", 16, 16);
  text += R"(  %y = Slice(%o) {axes = [1], starts = dims[8], ends = dims[9], steps = [1]}
  return %y
})";
  const auto graph = parse_model(text);
  ASSERT_TRUE(drop_unread_rows(*graph, options()).ok());
  const Node* attention = find_node(*graph, "Attention");
  EXPECT_TRUE(attention->input(0)->shape()[1].is(1));
  EXPECT_EQ(attention->attr_dims("causal_offset"), Shape{Dim(8)});
  expect_equal(text, {{"x", random_f32({1, 9, 16}, 1)}});
}

}  // namespace
}  // namespace tutti
