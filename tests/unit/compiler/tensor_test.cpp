// The tensor strategy: which weights are cut, what a layer exchanges, what a rank holds.
#include <gmock/gmock.h>

#include "tensor_fixture.h"

namespace tutti {
namespace {

TEST_F(TensorTest, AnAttentionAndAnMlpTakeOneReductionEach) {
  for (const int ranks : {2, 3, 4, 8}) {
    const auto model = compile_text(toy_.text(), tensor(str_cat("tp=", ranks)));
    // Self-attention, cross-attention (its keys and values are made in the prologue), MLP.
    EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 3 * toy_.layers}})) << model.explain;
  }
}

TEST_F(TensorTest, RanksHoldTheirShareOfTheWeights) {
  const auto whole = compile_text(toy_.text(), tensor(""));
  const auto four = compile_text(toy_.text(), tensor("tp=4"));
  // The first and the last product, 4 numbers wide on one side, and the one of a single number of
  // the time are the only whole ones.
  const std::int64_t rest = 2 * 4 * 64 + 64;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(weight_elements(four, rank) - rest, (weight_elements(whole, 0) - rest) / 4);
  }
}

TEST_F(TensorTest, HeadsAreWholeAndInRatio) {
  const auto model = compile_text(toy_.text(), tensor("tp=3"));  // 8 query heads, 4 key heads
  for (int rank = 0; rank < 3; ++rank) {
    SymbolMap symbols;
    model.mesh.bind(rank, &symbols);
    const Node* attention = find_node(*model.main, "Attention");
    const std::size_t heads = attention->attr_string("layout") == "bshd" ? 2 : 1;
    const auto q = attention->input(0)->shape()[heads].evaluate(symbols);
    const auto k = attention->input(1)->shape()[heads].evaluate(symbols);
    ASSERT_TRUE(q.ok() && k.ok());
    EXPECT_EQ(*q, 2 * *k);
    EXPECT_EQ(*k, rank == 0 ? 2 : 1);
  }
}

TEST_F(TensorTest, KeyHeadsThatAreFewerThanRanksStandOnSeveral) {
  const auto model = compile_text(toy_.text(), tensor("tp=8"));
  const Node* attention = find_node(*model.main, "Attention");
  const std::size_t heads = attention->attr_string("layout") == "bshd" ? 2 : 1;
  EXPECT_TRUE(attention->input(0)->shape()[heads].is(1));
  EXPECT_TRUE(attention->input(1)->shape()[heads].is(1));
}

// 4 query and 2 key heads over 3 ranks: 2 and 1 on two of them, not 2 and the same one twice.
TEST_F(TensorTest, NoRankHoldsAKeyHeadTwiceWhereThatSavesNoQueries) {
  toy_.heads = 4;
  toy_.kv_heads = 2;
  const auto model = compile_text(toy_.text(), tensor("tp=3"));
  const Node* attention = find_node(*model.main, "Attention");
  const std::size_t heads = attention->attr_string("layout") == "bshd" ? 2 : 1;
  for (int rank = 0; rank < 3; ++rank) {
    SymbolMap symbols;
    model.mesh.bind(rank, &symbols);
    EXPECT_EQ(*attention->input(0)->shape()[heads].evaluate(symbols), rank < 2 ? 2 : 0);
    EXPECT_EQ(*attention->input(1)->shape()[heads].evaluate(symbols), rank < 2 ? 1 : 0);
  }
}

TEST_F(TensorTest, HeadsAreSharedOutAgainInsideATensorParallelGroup) {
  CompileOptions by_heads = tensor("tp=2,cp=2");
  by_heads.attention_exchange = AttentionExchange::kHeads;
  const auto model = compile_text(toy_.text(), by_heads);
  EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 3 * toy_.layers},
                                 {"AllToAll cp", 2 * toy_.layers},
                                 {"AllGather cp", 1}}))
      << model.explain;
  // 8 query and 4 key heads: 2 and 1 on each of 4 ranks.
  const Node* attention = find_node(*model.main, "Attention");
  const std::size_t heads = attention->attr_string("layout") == "bshd" ? 2 : 1;
  EXPECT_TRUE(attention->input(0)->shape()[heads].is(2));
  EXPECT_TRUE(attention->input(1)->shape()[heads].is(1));
  EXPECT_THAT(
      model.layouts.at(attention->input(1)->name())
          .layout.to_string(model.layouts.at(attention->input(1)->name()).global.shape, model.mesh),
      ::testing::HasSubstr("4/tp/cp"));
}

TEST_F(TensorTest, TheOrderOfAxesInTheMeshDoesNotMatter) {
  const auto a = compile_text(toy_.text(), tensor("cfg=2,tp=2,cp=2"));
  const auto b = compile_text(toy_.text(), tensor("cp=2,cfg=2,tp=2"));
  EXPECT_EQ(kinds(a), kinds(b));
}

// A product whose result meets a norm is not split for an MLP behind the norm: it would have to be
// gathered.
TEST_F(TensorTest, ProductsInFrontOfANormArePricedNotPaired) {
  CompileOptions tp = tensor("tp=2");
  const auto model = compile_text(R"(graph @g (%x: f32[b, 64]) {
    %w1 = constant f32[64, 64] data
    %w2 = constant f32[64, 128] data
    %w3 = constant f32[128, 64] data
    %h = MatMul(%x, %w1)
    %n = LayerNormalization(%h) {axis = 1, epsilon = 0.001}
    %u = MatMul(%n, %w2)
    %a = Relu(%u)
    %y = MatMul(%a, %w3)
    return %y
  })",
                                  tp);
  EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 1}})) << model.explain;
}

// As exporters write packed projections: one product, cut into q, k and v behind a reshape that
// brings out the heads.
TEST_F(TensorTest, PackedQueriesKeysAndValuesAreCutApartFirst) {
  for (const std::string_view cut :
       {"%p: f32[1, b, 4, t, 16], %r: f32[1, b, 4, t, 16], %s: f32[1, b, 4, t, 16] = Split(%f) "
        "{axis = 0, sizes = dims[1, 1, 1]}",
        "%p = Slice(%f) {axes = [0], starts = dims[0], ends = dims[1], steps = [1]}\n"
        "%r = Slice(%f) {axes = [0], starts = dims[1], ends = dims[2], steps = [1]}\n"
        "%s = Slice(%f) {axes = [0], starts = dims[2], ends = dims[3], steps = [1]}"}) {
    const auto model = compile_text(str_cat(R"(graph @g (%x: f32[b, t, 64]) {
      %w = constant f32[64, 192] data
      %bias = constant f32[192] data
      %o.w = constant f32[64, 64] data
      %m = MatMul(%x, %w)
      %a = Add(%m, %bias)
      %h = Reshape(%a) {shape = dims[b, t, 3, 4, 16]}
      %f = Transpose(%h) {perm = [2, 0, 3, 1, 4]}
      )",
                                            cut, R"(
      %q = Reshape(%p) {shape = dims[b, 4, t, 16]}
      %k = Reshape(%r) {shape = dims[b, 4, t, 16]}
      %v = Reshape(%s) {shape = dims[b, 4, t, 16]}
      %n = Attention(%q, %k, %v) {layout = "bhsd", scale = 0.25}
      %ot = Transpose(%n) {perm = [0, 2, 1, 3]}
      %of = Reshape(%ot) {shape = dims[b, t, 64]}
      %y = MatMul(%of, %o.w)
      return %y
    })"),
                                    tensor("tp=2"));
    EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 1}})) << model.explain;
    EXPECT_EQ(weight_elements(model, 0), 4 * 64 * 64 / 2);
  }
}

// Attention and MLP side by side, one output product over both (as in Flux's single blocks).
TEST_F(TensorTest, AProductOfConcatenatedFeaturesSumsOverPiecesOfEach) {
  const std::string text = R"(graph @g (%x: f32[b, t, 32]) {
    %n = LayerNormalization(%x) {axis = 2, epsilon = 0.001}
    %qw = constant f32[32, 32] data
    %kw = constant f32[32, 32] data
    %vw = constant f32[32, 32] data
    %uw = constant f32[32, 70] data
    %ow = constant f32[102, 32] data
    %qm = MatMul(%n, %qw)
    %km = MatMul(%n, %kw)
    %vm = MatMul(%n, %vw)
    %qr = Reshape(%qm) {shape = dims[b, t, 4, 8]}
    %kr = Reshape(%km) {shape = dims[b, t, 4, 8]}
    %vr = Reshape(%vm) {shape = dims[b, t, 4, 8]}
    %a = Attention(%qr, %kr, %vr) {layout = "bshd", scale = 0.5}
    %af = Reshape(%a) {shape = dims[b, t, 32]}
    %um = MatMul(%n, %uw)
    %u = Gelu(%um) {approximate = "none"}
    %j = Concat(%af, %u) {axis = 2}
    %y = MatMul(%j, %ow)
    %z = Add(%x, %y)
    return %z
  })";
  // 4 heads of 8 features and 70 others: pieces of the heads are whole heads, those of the rest are
  // not bound to them.
  for (const std::string_view mesh :
       {"tp=2", "tp=3", "tp=4", "tp=8", "tp=2,cp=2", "tp=3,cp=2", "cfg=2,tp=3"}) {
    const auto model = compile_text(text, tensor(mesh));
    Kinds found;
    for (const auto& [kind, count] : kinds(model)) {
      if (kind.ends_with(" tp")) found[kind] = count;
    }
    EXPECT_EQ(found, (Kinds{{"AllReduce tp", 1}})) << model.explain;
    double weights = 0;  // of all ranks; each piece lies on every rank of the other axes
    for (const RankBytes& rank : model.memory) weights += rank.weights;
    const int ranks = model.mesh.size(model.mesh.find("tp"));
    EXPECT_EQ(weights * ranks / model.mesh.num_ranks(), (3 * 32 * 32 + 32 * 70 + 102 * 32) * 4);
    const NamedTensors tensors = {{"x", random_f32({2, 5, 32}, 1)}};
    expect_one_rank_result(model, text, tensors, {{"b", 2}, {"t", 5}}, mesh);
  }
}

// Gates of heads, and heads of products without an Attention (linear attention): 4 heads of 8 over
// 3 ranks, whole ones on each.
TEST_F(TensorTest, FeaturesThatMeetHeadsAreCutBetweenThem) {
  const auto text_of = [](std::string_view heads) {
    return str_cat(R"(graph @g (%x: f32[b, t, 32]) {
    %qw = constant f32[32, 32] data
    %kw = constant f32[32, 32] data
    %vw = constant f32[32, 32] data
    %gw = constant f32[32, 32] data
    %ow = constant f32[32, 32] data
    %gm = MatMul(%x, %gw)
    %g = Sigmoid(%gm)
    %qm = MatMul(%x, %qw)
    %km = MatMul(%x, %kw)
    %vm = MatMul(%x, %vw)
    %qr = Reshape(%qm) {shape = dims[b, t, 4, 8]}
    %kr = Reshape(%km) {shape = dims[b, t, 4, 8]}
    %vr = Reshape(%vm) {shape = dims[b, t, 4, 8]}
    )",
                   heads, R"(
    %af = Reshape(%a) {shape = dims[b, t, 32]}
    %ag = Mul(%g, %af)
    %y = MatMul(%ag, %ow)
    return %y
  })");
  };
  const std::string_view softmax = "%a = Attention(%qr, %kr, %vr) {layout = \"bshd\", scale = 0.5}";
  const std::string_view linear = R"(
    %kt = Transpose(%kr) {perm = [0, 2, 3, 1]}
    %vt = Transpose(%vr) {perm = [0, 2, 1, 3]}
    %s = MatMul(%kt, %vt)
    %qt = Transpose(%qr) {perm = [0, 2, 1, 3]}
    %at = MatMul(%qt, %s)
    %a = Transpose(%at) {perm = [0, 2, 1, 3]})";
  for (const std::string_view heads : {softmax, linear}) {
    const std::string text = text_of(heads);
    for (const std::string_view mesh : {"tp=2", "tp=3", "tp=4"}) {
      const auto model = compile_text(text, tensor(mesh));
      EXPECT_EQ(kinds(model), (Kinds{{"AllReduce tp", 1}})) << model.explain;
      const NamedTensors tensors = {{"x", random_f32({2, 5, 32}, 1)}};
      expect_one_rank_result(model, text, tensors, {{"b", 2}, {"t", 5}}, mesh);
    }
  }
}

// Norms over all heads at once (as in Wan): a number a token is reduced, no features are gathered.
TEST_F(TensorTest, NormsOverAllHeadsReduceTheirSums) {
  const auto text_of = [](std::string_view norm) {
    return str_cat(R"(graph @g (%x: f32[b, t, 32]) {
    %qw = constant f32[32, 32] data
    %kw = constant f32[32, 32] data
    %vw = constant f32[32, 32] data
    %ow = constant f32[32, 32] data
    %qs = constant f32[32] data
    %ks = constant f32[32] data
    %qm = MatMul(%x, %qw)
    %km = MatMul(%x, %kw)
    %vm = MatMul(%x, %vw)
    %qn = )",
                   norm, R"((%qm, %qs) {axis = 2, epsilon = 0.001}
    %kn = )",
                   norm, R"((%km, %ks) {axis = 2, epsilon = 0.001}
    %qr = Reshape(%qn) {shape = dims[b, t, 4, 8]}
    %kr = Reshape(%kn) {shape = dims[b, t, 4, 8]}
    %vr = Reshape(%vm) {shape = dims[b, t, 4, 8]}
    %a = Attention(%qr, %kr, %vr) {layout = "bshd", scale = 0.5}
    %af = Reshape(%a) {shape = dims[b, t, 32]}
    %y = MatMul(%af, %ow)
    return %y
  })");
  };
  for (const auto& [norm, reduced] :
       {std::pair{"RMSNormalization", 2}, {"LayerNormalization", 4}}) {
    const std::string text = text_of(norm);
    for (const std::string_view mesh : {"tp=2", "tp=3", "tp=2,cp=2"}) {
      const auto model = compile_text(text, tensor(mesh));
      Kinds found = kinds(model);
      // Those of queries travel with those of keys that stand ready, and there is the output's.
      EXPECT_EQ(found["AllReduce tp"], reduced) << model.explain;
      EXPECT_EQ(found["AllGather tp"], 0) << model.explain;
      const NamedTensors tensors = {{"x", random_f32({2, 5, 32}, 1)}};
      expect_one_rank_result(model, text, tensors, {{"b", 2}, {"t", 5}}, mesh);
    }
  }
}

// The ends of a language model: a table of 1501 words, and a projection back to them.
std::string word_model(bool is_tied) {
  return str_cat(
      R"(graph @g (%ids: i64[b, t]) {
    %table = constant f32[1501, 16] data
    %uw = constant f32[16, 64] data
    %dw = constant f32[64, 16] data
    %x = Gather(%table, %ids) {axis = 0}
    %n = RMSNormalization(%x) {axis = 2, epsilon = 0.001}
    %um = MatMul(%n, %uw)
    %u = Relu(%um)
    %d = MatMul(%u, %dw)
    %h = Add(%x, %d)
    )",
      is_tied ? "%hw = Transpose(%table) {perm = [1, 0]}" : "%hw = constant f32[16, 1501] data",
      R"(
    %y = MatMul(%h, %hw)
    return %y
  })");
}

Tensor token_ids(std::vector<std::int64_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  return Tensor::ints(ids).reshaped({1, count});
}

TEST_F(TensorTest, ATiedTableIsSplitByItsRows) {
  for (const std::string_view mesh : {"tp=2", "tp=3", "tp=4", "tp=2,cp=2", "cfg=2,tp=2"}) {
    CompileOptions all = tensor(mesh);
    all.split_all_weights = true;
    const auto model = compile_text(word_model(true), all);
    Kinds found = kinds(model);
    // Words that other ranks have, and the sum of the MLP; then pieces of the logits.
    EXPECT_EQ(found["AllReduce tp"], 2) << model.explain;
    EXPECT_EQ(found["AllGather tp"], 1) << model.explain;
    double weights = 0;
    for (const RankBytes& rank : model.memory) weights += rank.weights;
    const int ranks = model.mesh.size(model.mesh.find("tp"));
    EXPECT_NEAR(weights * ranks / model.mesh.num_ranks(), (1501 * 16 + 2 * 16 * 64) * 4, 100)
        << mesh;
    const NamedTensors tensors = {{"ids", token_ids({0, 1500, -1, -1501, 751, 750, 500, 3})}};
    expect_one_rank_result(model, word_model(true), tensors, {{"b", 1}, {"t", 8}}, mesh);
  }
}

TEST_F(TensorTest, AWordThatNoRankHasIsAnErrorThatNamesItAndTheWholeTable) {
  CompileOptions all = tensor("tp=2");
  all.split_all_weights = true;
  const auto model = compile_text(word_model(true), all);
  for (const std::int64_t id : {1501, -1502}) {
    SpmdInterpreter interpreter(&ops_);
    const auto outputs = interpreter.run(model, {{"ids", token_ids({0, id})}});
    EXPECT_THAT(outputs.status().message(),
                ::testing::HasSubstr(str_cat("index ", id, " is not in [-1501, 1501)")));
  }
}

// By its columns a table costs a gather, by its rows twice as many bytes in a sum.
TEST_F(TensorTest, ATableOfItsOwnIsSplitByWhatMovesLess) {
  CompileOptions all = tensor("tp=2");
  all.split_all_weights = true;
  const auto model = compile_text(word_model(false), all);
  EXPECT_EQ(kinds(model), (Kinds{{"AllGather tp", 2}, {"AllReduce tp", 1}})) << model.explain;
  for (const RankBytes& rank : model.memory) {
    EXPECT_LE(rank.weights, (751 * 16 + 1501 * 8 + 16 * 64) * 4);
  }
}

TEST_F(TensorTest, LargeTablesAreDividedWhereMemoryIsWorthIt) {
  CompileOptions tp = tensor("tp=4");
  const double whole = (1501 * 16 + 2 * 16 * 64) * 4;
  tp.rates.seconds_per_exchange = 1e-3;
  EXPECT_GT(compile_text(word_model(true), tp).memory[0].weights, whole / 2);
  tp.rates.seconds_per_byte_held = 1e-6;  // so that 96 kB are
  tp.rates.memory_bytes_per_second = 1e6;
  tp.rates.bytes_per_second = 1e8;
  EXPECT_LE(compile_text(word_model(true), tp).memory[0].weights, 1.01 * whole / 4);
}

TEST_F(TensorTest, ModelsThatOneRankCannotHoldAreDividedWithTheirTables) {
  for (const bool is_tied : {true, false}) {
    const std::string text = word_model(is_tied);
    const double whole = compile_text(text, tensor("")).memory[0].weights;
    EXPECT_EQ(whole, (1501 * 16 * (is_tied ? 1 : 2) + 2 * 16 * 64) * 4);
    CompileOptions limited = tensor("tp=4");
    limited.typical_sizes = {{"b", 1}, {"t", 4}};
    limited.memory_limit = 0.6 * whole;
    const auto model = compile_text(text, limited);
    for (const RankBytes& rank : model.memory) EXPECT_LE(rank.weights, 0.26 * whole);
  }
}

// Modulation: one row of activations, a large weight. Reading a piece of it outweighs a gather.
TEST_F(TensorTest, ALargeWeightForFewRowsIsSplitAndItsOutputGathered) {
  CompileOptions tp = tensor("tp=4");
  tp.rates.memory_bytes_per_second = 1e6;  // a weight of this test is large
  const auto model = compile_text(R"(graph @g (%x: f32[1, 64]) {
    %w1 = constant f32[64, 512] data
    %h = MatMul(%x, %w1)
    %n = Softmax(%h) {axis = 1}
    return %n
  })",
                                  tp);
  EXPECT_EQ(kinds(model), (Kinds{{"AllGather tp", 1}})) << model.explain;
}

}  // namespace
}  // namespace tutti
