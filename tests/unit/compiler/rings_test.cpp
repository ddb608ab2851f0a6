// When keys and values travel in a ring.
#include <gmock/gmock.h>

#include "compiler_fixture.h"
#include "spmd_interpreter.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class RingsTest : public CompilerTest {
 protected:
  CompileOptions with(AttentionExchange exchange, std::string_view mesh = "cp=4") {
    CompileOptions asked = options(mesh);
    asked.attention_exchange = exchange;
    return asked;
  }
  static std::vector<std::string> kinds(const CompiledModel& model) {
    std::vector<std::string> kinds;
    for (const ExchangeInfo& exchange : model.exchanges) kinds.push_back(exchange.kind);
    return kinds;
  }
  const ToyTransformer toy_ = {.layers = 1};
  const ToyTransformer one_head_ = {.layers = 1, .heads = 1, .kv_heads = 1};
};

TEST_F(RingsTest, EachWayCanBeAskedFor) {
  using Kinds = std::vector<std::string>;
  const auto found = [&](AttentionExchange exchange) {
    return kinds(compile_text(toy_.text(), with(exchange)));
  };
  EXPECT_EQ(found(AttentionExchange::kAuto), (Kinds{"AllToAll", "AllToAll", "AllGather"}));
  EXPECT_EQ(found(AttentionExchange::kHeads), (Kinds{"AllToAll", "AllToAll", "AllGather"}));
  EXPECT_EQ(found(AttentionExchange::kGather), (Kinds{"AllGather", "AllGather"}));
  EXPECT_EQ(found(AttentionExchange::kRing), (Kinds{"RingAttention", "AllGather"}));
}

TEST_F(RingsTest, ALongSequenceWithoutHeadsToShareGoesRound) {
  CompileOptions options = with(AttentionExchange::kAuto, "cp=8");
  options.typical_sizes = {{"frames", 4}, {"height", 8}, {"width", 8}};
  EXPECT_THAT(kinds(compile_text(one_head_.text(), options)),
              ::testing::Contains("AllGather").Times(2));
  options.typical_sizes = {{"frames", 500}, {"height", 5000}, {"width", 500}};
  EXPECT_THAT(kinds(compile_text(one_head_.text(), options)), ::testing::Contains("RingAttention"));
}

TEST_F(RingsTest, TheReportCountsTheBytesOfAGather) {
  const auto bytes = [&](AttentionExchange exchange) {
    const CompiledModel model = compile_text(toy_.text(), with(exchange));
    return model.exchanges.front().sent_bytes;
  };
  EXPECT_EQ(bytes(AttentionExchange::kRing), bytes(AttentionExchange::kGather));
}

TEST_F(RingsTest, KeysThatStayTheSameAreGatheredOnce) {
  // Those of the prompt: seeded, so that they are pieces.
  CompileOptions options = with(AttentionExchange::kRing);
  options.seeds = {{"context", 1, "cp"}};
  const CompiledModel model = compile_text(toy_.text(), options);
  ASSERT_NE(model.prologue, nullptr);
  EXPECT_EQ(count_nodes(*model.prologue, "AllGather") + count_nodes(*model.prologue, "AllToAll"), 1)
      << model.explain;
  EXPECT_EQ(count_nodes(*model.main, "RingAttention"), 1);
}

TEST_F(RingsTest, AnyNumberOfRanksGivesTheOneRankResult) {
  for (const ToyTransformer& toy : {toy_, one_head_}) {
    const auto whole = parse_model(toy.text());
    for (const char* mesh : {"cp=2", "cp=3", "cp=8", "cfg=2,cp=2"}) {
      for (const AttentionExchange exchange :
           {AttentionExchange::kGather, AttentionExchange::kRing}) {
        const CompiledModel model = compile_text(toy.text(), with(exchange, mesh));
        const NamedTensors tensors = {{"latents", random_f32({2, 4, 1, 5, 3}, 1)},
                                      {"time", random_f32({2}, 2)},
                                      {"text", random_f32({2, 3, 8}, 3)}};
        SpmdInterpreter interpreter(&ops_);
        const auto right =
            interpreter.run_whole(*whole, tensors, bind_sizes(model.inputs, tensors));
        const auto found = interpreter.run(model, tensors);
        ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
        for (const auto& outputs : *found) {
          EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
        }
      }
    }
  }
}

// Two streams that each attention joins (MM-DiT): keys and values stay pieces of both.
TEST_F(RingsTest, JoinedSequencesGoRoundInTheirPieces) {
  std::string text = "graph @joint (%video: f32[b, s, 16], %words: f32[b, t, 16]) {\n";
  for (const std::string stream : {"video", "words"}) {
    const std::string size = stream == "video" ? "s" : "t";
    for (const std::string part : {"q", "k", "v"}) {
      const std::string name = str_cat("%", part, ".", stream);
      text += str_cat("  ", name, ".w = constant f32[16, 16] data\n  ", name, ".m = MatMul(%",
                      stream, ", ", name, ".w)\n  ", name, " = Reshape(", name,
                      ".m) {shape = dims[b, ", size, ", 2, 8]}\n");
    }
  }
  for (const std::string part : {"q", "k", "v"}) {
    text += str_cat("  %", part, " = Concat(%", part, ".words, %", part, ".video) {axis = 1}\n");
  }
  text += R"(
    %a = Attention(%q, %k, %v) {layout = "bshd", scale = 0.5}
    %f = Reshape(%a) {shape = dims[b, s+t, 16]}
    %ow = constant f32[16, 16] data
    %p = MatMul(%f, %ow)
    %wo = Slice(%p) {axes = [1], starts = dims[0], ends = dims[t], steps = [1]}
    %vo = Slice(%p) {axes = [1], starts = dims[t], ends = dims[s+t], steps = [1]}
    %y = Add(%video, %vo)
    %z = Add(%words, %wo)
    return %y, %z
  })";
  const auto whole = parse_model(text);
  for (const char* mesh : {"cp=2", "cp=3", "cp=5", "tp=2,cp=2"}) {
    CompileOptions ring = with(AttentionExchange::kRing, mesh);
    ring.detect_invariant_inputs = false;
    // Computing them of whole inputs on every rank would move nothing.
    for (const char* name : {"k.video", "k.words", "v.video", "v.words"}) {
      ring.seeds.push_back({name, 1, "cp"});
    }
    const CompiledModel model = compile_text(text, ring);
    EXPECT_EQ(count_nodes(*model.main, "JoinedRingAttention"), 1) << model.explain;
    EXPECT_EQ(count_nodes(*model.main, "Attention"), 0);
    const Node* node = find_node(*model.main, "JoinedRingAttention");
    ASSERT_NE(node, nullptr);
    EXPECT_EQ(node->attr_dims("segments"), (Shape{Dim::symbol("t"), Dim::symbol("s")}));
    const NamedTensors tensors = {{"video", random_f32({2, 9, 16}, 1)},
                                  {"words", random_f32({2, 4, 16}, 2)}};
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, tensors, bind_sizes(model.inputs, tensors));
    const auto found = interpreter.run(model, tensors);
    ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
    for (const auto& outputs : *found) {
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_LE(relative_error(outputs[i], (*right)[i]), 1e-5) << mesh;
      }
    }
  }
  // Not every backend has it, so it is asked for.
  CompileOptions automatic = with(AttentionExchange::kAuto, "cp=4");
  automatic.typical_sizes = {{"s", 1 << 24}, {"t", 1 << 10}};
  EXPECT_EQ(count_nodes(*compile_text(text, automatic).main, "JoinedRingAttention"), 0);
}

TEST_F(RingsTest, UnknownWaysAreRefused) {
  EXPECT_TRUE(parse_attention_exchange("ring").ok());
  EXPECT_THAT(parse_attention_exchange("rings").status().message(),
              HasSubstr("'rings' is unknown; expected auto, heads, gather or ring"));
}

TEST_F(RingsTest, PiecesOfTheWrongLengthAreErrors) {
  const auto graph = parse_graph(R"(graph @g (%q: f32[1, 2, 3, 4], %k: f32[1, 2, 5, 4]) {
    %y = RingAttention(%q, %k, %k) {layout = "bhsd", scale = 0.5, axis = "cp", ranks = 2,
      size = dims[10]}
    return %y
  })",
                                 ops_);
  EXPECT_TRUE(graph.ok());
  const auto wrong = parse_graph(R"(graph @g (%q: f32[1, 2, 3, 4], %k: f32[1, 2, 5, 4]) {
    %y = RingAttention(%q, %k, %k) {layout = "bhsd", scale = 0.5, axis = "cp", ranks = 2,
      size = dims[9]}
    return %y
  })",
                                 ops_);
  EXPECT_THAT(wrong.status().message(), HasSubstr("k has 5 tokens, expected part(9,2,rank.cp)"));
  const auto joined = parse_graph(R"(graph @g (%q: f32[1, 2, 3, 4], %k: f32[1, 2, 5, 4]) {
    %y = JoinedRingAttention(%q, %k, %k) {layout = "bhsd", scale = 0.5, axis = "cp", ranks = 2,
      size = dims[10], segments = dims[4, 5]}
    return %y
  })",
                                  ops_);
  EXPECT_THAT(joined.status().message(), HasSubstr("segments [4, 5] add up to 9, expected 10"));
}

}  // namespace
}  // namespace tutti
