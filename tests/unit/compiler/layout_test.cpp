#include "compiler/layout.h"

#include <gmock/gmock.h>

#include "compiler_fixture.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LayoutTest : public CompilerTest {
 protected:
  // Key heads in groups move less when gathered over few ranks.
  CompileOptions by_heads(std::string_view mesh) {
    CompileOptions chosen = options(mesh);
    chosen.attention_exchange = AttentionExchange::kHeads;
    return chosen;
  }

  std::string layout_of(const Partitioned& spmd, std::string_view value, const Mesh& mesh) {
    const auto it = spmd.layouts.find(value);
    if (it == spmd.layouts.end()) return str_cat("no value ", value);
    return it->second.layout.to_string(it->second.global.shape, mesh);
  }
};

// --- Ulysses on whole models ------------------------------------------------------------------

TEST_F(LayoutTest, SelfAttentionTakesTwoExchangesALayerAndCrossAttentionNone) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const ToyTransformer toy;
    const auto model = compile_text(toy.text(), by_heads(str_cat("cp=", ranks)));
    ASSERT_EQ(model.exchanges.size(), static_cast<std::size_t>(2 * toy.layers + 1))
        << model.explain;
    for (int layer = 0; layer < toy.layers; ++layer) {
      const ExchangeInfo& in = model.exchanges[static_cast<std::size_t>(2 * layer)];
      const ExchangeInfo& out = model.exchanges[static_cast<std::size_t>(2 * layer) + 1];
      EXPECT_EQ(in.kind, "AllToAll");
      EXPECT_EQ(in.values.size(), 3U) << "q, k and v travel in one";
      EXPECT_EQ(out.kind, "AllToAll");
      EXPECT_EQ(out.values.size(), 1U);
    }
    EXPECT_EQ(model.exchanges.back().kind, "AllGather");
    for (const ExchangeInfo& exchange : model.exchanges) EXPECT_FALSE(exchange.in_prologue);
  }
}

TEST_F(LayoutTest, OneRankExchangesNothing) {
  for (const std::string_view mesh : {"", "cp=1", "cfg=1,cp=1"}) {
    const auto model = compile_text(ToyTransformer().text(), options(mesh));
    EXPECT_TRUE(model.exchanges.empty());
    EXPECT_EQ(count_nodes(*model.main, "ShardSlice"), 0);
  }
}

TEST_F(LayoutTest, GroupedHeadsTravelUnexpandedWhereThereAreEnoughOfThem) {
  const auto graph = parse_model(ToyTransformer().text());
  const CompileOptions cp4 = options("cp=4");
  const Partitioned spmd = to_spmd(*graph, cp4);
  EXPECT_EQ(layout_of(spmd, "l0.self.q.y/cp1", cp4.mesh),
            "[batch, 8/cp(units 4), frames*height*width, 4]");
  EXPECT_EQ(layout_of(spmd, "l0.self.k.y/cp1", cp4.mesh), "[batch, 4/cp, frames*height*width, 4]");
}

TEST_F(LayoutTest, FewerKeyHeadsThanRanksAreReplicatedAndTheRatioHolds) {
  const auto graph = parse_model(ToyTransformer().text());
  const CompileOptions cp8 = options("cp=8");
  const Partitioned spmd = to_spmd(*graph, cp8);
  EXPECT_EQ(layout_of(spmd, "l0.self.q.y/cp1", cp8.mesh), "[batch, 8/cp, frames*height*width, 4]");
  EXPECT_EQ(layout_of(spmd, "l0.self.k.y/cp1", cp8.mesh),
            "[batch, 4/cp(units 4, x2), frames*height*width, 4]");
  // Each rank: one query head, the key head of its group.
  const Node* exchange = find_node(*spmd.graph, "AllToAll");
  EXPECT_EQ(exchange->attr_ints("to_replicas"), (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_TRUE(exchange->output(0)->shape()[1].is(1));
  EXPECT_TRUE(exchange->output(1)->shape()[1].is(1));
}

TEST_F(LayoutTest, HeadsThatDoNotDivideStayInRatioOnEveryRank) {
  ToyTransformer toy;
  toy.heads = 40;
  toy.kv_heads = 40;
  for (const auto& [heads, kv_heads, ranks] :
       {std::tuple{40, 40, 3}, {8, 4, 3}, {12, 6, 5}, {12, 4, 8}, {16, 2, 6}}) {
    toy.heads = heads;
    toy.kv_heads = kv_heads;
    const auto graph = parse_model(toy.text());
    const CompileOptions cp = by_heads(str_cat("cp=", ranks));
    const Partitioned spmd = to_spmd(*graph, cp);
    const Node* attention = find_node(*spmd.graph, "Attention");
    int total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      SymbolMap symbols;
      cp.mesh.bind(rank, &symbols);
      const auto q = attention->input(0)->shape()[1].evaluate(symbols);
      const auto k = attention->input(1)->shape()[1].evaluate(symbols);
      ASSERT_TRUE(q.ok() && k.ok());
      total += static_cast<int>(*q);
      if (*k == 0) {
        EXPECT_EQ(*q, 0);
      } else {
        EXPECT_EQ(*q % *k, 0) << heads << "/" << kv_heads << " heads over " << ranks;
        EXPECT_EQ((heads / kv_heads) % (*q / *k), 0);
      }
    }
    EXPECT_EQ(total, heads);
  }
}

TEST_F(LayoutTest, WhenHeadsRunOutKeysAndValuesAreGathered) {
  ToyTransformer toy;
  toy.heads = 2;
  toy.kv_heads = 2;
  const auto model = compile_text(toy.text(), options("cp=8"));
  // Keys and values of a layer in one transfer; then the output.
  ASSERT_EQ(model.exchanges.size(), static_cast<std::size_t>(toy.layers + 1)) << model.explain;
  for (std::size_t i = 0; i < model.exchanges.size(); ++i) {
    EXPECT_EQ(model.exchanges[i].kind, "AllGather");
    EXPECT_EQ(model.exchanges[i].values.size(), i + 1 < model.exchanges.size() ? 2U : 1U);
  }
}

TEST_F(LayoutTest, SizesMayBeNumbers) {
  ToyTransformer toy;
  toy.tokens = "7, 5, 3";
  toy.batch = "2";
  for (const int ranks : {2, 3, 4, 8}) {
    const auto model = compile_text(toy.text(), by_heads(str_cat("cp=", ranks)));
    EXPECT_EQ(model.exchanges.size(), static_cast<std::size_t>(2 * toy.layers + 1))
        << model.explain;
  }
}

TEST_F(LayoutTest, NumbersThatDivideCarryTheSplitThroughTheLastReshape) {
  ToyTransformer toy;
  toy.tokens = "8, 5, 3";
  toy.batch = "2";
  const auto model = compile_text(toy.text(), options("cp=4"));
  ASSERT_EQ(model.exchanges.back().kind, "AllGather");
  // The output itself is gathered, along frames.
  const Node* gather = find_node(*model.main, "AllGather");
  EXPECT_EQ(gather->input(0)->rank(), 5U);
  EXPECT_EQ(gather->attr_int("dim"), 2);
}

// --- Guidance axis ----------------------------------------------------------------------------

TEST_F(LayoutTest, TheBatchAxisSplitsEverythingAndGathersTheOutputOnly) {
  const auto model = compile_text(ToyTransformer().text(), options("cfg=2"));
  ASSERT_EQ(model.exchanges.size(), 1U) << model.explain;
  EXPECT_EQ(model.exchanges[0].kind, "AllGather");
  EXPECT_EQ(model.exchanges[0].axis, "cfg");
}

TEST_F(LayoutTest, TwoAxesSplitBatchAndTokens) {
  const ToyTransformer toy;
  for (const std::string_view mesh : {"cfg=2,cp=2", "cp=2,cfg=2", "cfg=2,cp=3"}) {
    const auto model = compile_text(toy.text(), by_heads(mesh));
    std::map<std::string, int> kinds;
    for (const ExchangeInfo& exchange : model.exchanges)
      ++kinds[exchange.kind + " " + exchange.axis];
    EXPECT_EQ(kinds,
              (std::map<std::string, int>{
                  {"AllGather cfg", 1}, {"AllGather cp", 1}, {"AllToAll cp", 2 * toy.layers}}))
        << model.explain;
  }
}

// --- Rules of single nodes, seeded by hand ----------------------------------------------------

TEST_F(LayoutTest, ASplitSumGivesPartialSumsThatAreReducedOnce) {
  CompileOptions tp = options("tp=2");
  tp.seeds = {{"w1", 1, "tp"}};
  const auto graph = parse(R"(graph @mlp (%x: f32[b, 16]) {
    %w1 = constant f32[16, 64] data
    %w2 = constant f32[64, 16] data
    %h = MatMul(%x, %w1)
    %a = Silu(%h)
    %y = MatMul(%a, %w2)
    %z = Add(%y, %x)
    %n = Exp(%y)
    return %z, %n
  })");
  const Partitioned spmd = to_spmd(*graph, tp);
  EXPECT_EQ(layout_of(spmd, "h", tp.mesh), "[b, 64/tp]");
  EXPECT_EQ(layout_of(spmd, "a", tp.mesh), "[b, 64/tp]");
  EXPECT_EQ(layout_of(spmd, "w2/tp0", tp.mesh), "[64/tp, 16]");
  EXPECT_EQ(layout_of(spmd, "y", tp.mesh), "sum(tp) [b, 16]");
  EXPECT_EQ(count_nodes(*spmd.graph, "AllReduce"), 1);
  EXPECT_EQ(layout_of(spmd, "z", tp.mesh), "[b, 16]");
}

TEST_F(LayoutTest, APartialSumThatIsWantedInPiecesIsReducedAndScattered) {
  CompileOptions tp = options("tp=2");
  tp.seeds = {{"w1", 1, "tp"}, {"y", 0, "tp"}};
  const auto graph = parse(R"(graph @mlp (%x: f32[b, 16]) {
    %w1 = constant f32[16, 64] data
    %w2 = constant f32[64, 16] data
    %h = MatMul(%x, %w1)
    %y = MatMul(%h, %w2)
    %z = Exp(%y)
    return %z
  })");
  CompileOptions slow_links = tp;  // moving is dear, so that summing beats gathering h
  const Partitioned spmd = to_spmd(*graph, slow_links);
  EXPECT_EQ(count_nodes(*spmd.graph, "ReduceScatter"), 1) << print(*spmd.graph);
  EXPECT_EQ(layout_of(spmd, "z", tp.mesh), "[b/tp, 16]");
}

TEST_F(LayoutTest, OperandsThatAreSplitDifferentlyMeetInTheFirstOnesSplit) {
  CompileOptions cp = options("cp=2");
  cp.seeds = {{"a", 0, "cp"}, {"b", 1, "cp"}};
  const auto graph = parse(R"(graph @g (%x: f32[m, n], %y: f32[m, n]) {
    %a = Exp(%x)
    %b = Abs(%y)
    %c = Add(%a, %b)
    return %c
  })");
  const Partitioned spmd = to_spmd(*graph, cp);
  EXPECT_EQ(layout_of(spmd, "c", cp.mesh), "[m/cp, n]");
  EXPECT_EQ(count_nodes(*spmd.graph, "AllToAll"), 1);
}

TEST_F(LayoutTest, ANodeThatNeedsASplitDimensionWholeTakesTheCheapestWay) {
  CompileOptions cp = options("cp=4");
  cp.seeds = {{"a", 1, "cp"}};
  const auto graph = parse(R"(graph @g (%x: f32[m, n]) {
    %a = Exp(%x)
    %s = Softmax(%a) {axis = 1}
    %c = Abs(%s)
    return %c
  })");
  const Partitioned spmd = to_spmd(*graph, cp);
  // Whatever way it takes, the result is checked; n is never split where Softmax runs.
  const Node* softmax = find_node(*spmd.graph, "Softmax");
  EXPECT_EQ(softmax->input(0)->shape()[1], Dim::symbol("n"));
}

TEST_F(LayoutTest, ReplicatedToSplitMovesNothing) {
  CompileOptions cp = options("cp=4");
  cp.seeds = {{"b", 0, "cp"}};
  const auto graph = parse(R"(graph @g (%x: f32[m, n], %bias: f32[n]) {
    %a = CumSum(%x) {axis = 0, exclusive = 0, reverse = 0}
    %b = Add(%a, %bias)
    %c = Softmax(%b) {axis = 0}
    return %c
  })");
  const Partitioned spmd = to_spmd(*graph, cp);
  EXPECT_EQ(count_nodes(*spmd.graph, "ShardSlice"), 1) << print(*spmd.graph);
}

TEST_F(LayoutTest, AConversionIsMadeOnceForAllItsUsers) {
  CompileOptions cp = options("cp=4");
  cp.seeds = {{"a", 0, "cp"}};
  const auto graph = parse(R"(graph @g (%x: f32[m, n]) {
    %a = Exp(%x)
    %s = Softmax(%a) {axis = 0}
    %c = CumSum(%a) {axis = 0, exclusive = 0, reverse = 0}
    return %s, %c, %a
  })");
  const Partitioned spmd = to_spmd(*graph, cp);
  int exchanges_of_a = 0;
  for (const auto& node : spmd.graph->nodes()) {
    if (node->op().is_exchange && node->input(0)->name() == "a") ++exchanges_of_a;
  }
  EXPECT_LE(exchanges_of_a, 2);  // whole once, and at most one other layout
}

TEST_F(LayoutTest, TokensStayInOrderWhereFramesDoNotDivide) {
  // (frames height) -> tokens: 3 ranks cannot cut tokens at frames, so the reshape is whole.
  CompileOptions cp = options("cp=3");
  cp.seeds = {{"e", 0, "cp"}};
  const auto graph = parse(R"(graph @g (%x: f32[4, 5]) {
    %a = Exp(%x)
    %t = Reshape(%a) {shape = dims[20]}
    %e = Abs(%t)
    return %e
  })");
  const Partitioned spmd = to_spmd(*graph, cp);
  EXPECT_EQ(layout_of(spmd, "a", cp.mesh), "[4, 5]");
  EXPECT_EQ(layout_of(spmd, "e", cp.mesh), "[20/cp]");
}

// --- Options ----------------------------------------------------------------------------------

TEST_F(LayoutTest, UnknownNamesAreErrorsThatNameThem) {
  const auto error = [&](CompileOptions bad) {
    const auto model = compile(parse_model(ToyTransformer().text()), bad);
    return model.ok() ? std::string("no error") : model.status().message();
  };
  CompileOptions bad = options("cp=2");
  bad.strategies = {{"cp", "magic"}};
  EXPECT_THAT(error(bad),
              HasSubstr("'magic' is unknown; expected cfg, tensor, ulysses, spatial or none"));
  bad.strategies = {{"tp", "none"}};
  EXPECT_THAT(error(bad), HasSubstr("mesh axis 'tp'"));
  bad.strategies.clear();
  bad.seeds = {{"nothing", 0, "cp"}};
  EXPECT_THAT(error(bad), HasSubstr("'nothing:0=cp'"));
  bad.seeds = {{"x0", 7, "cp"}};
  EXPECT_THAT(error(bad), HasSubstr("dimension 7 is outside [0, 3)"));
  bad.seeds.clear();
  bad.invariant_inputs = {"prompt"};
  EXPECT_THAT(error(bad),
              HasSubstr("'prompt' is no input of the model, which has [latents, time, text]"));
}

TEST_F(LayoutTest, SeedsAreReadFromText) {
  const auto seed = parse_seed("onnx::MatMul_3:1=tp");
  ASSERT_TRUE(seed.ok());
  EXPECT_EQ(seed->value, "onnx::MatMul_3");
  EXPECT_EQ(seed->dim, 1);
  EXPECT_EQ(seed->axis, "tp");
  for (const std::string_view text :
       {"", "w", "w:1", "w=tp", ":1=tp", "w:x=tp", "w:-1=tp", "w:1="}) {
    EXPECT_FALSE(parse_seed(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tutti
