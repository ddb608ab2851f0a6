// The compiled model on N ranks against the uncompiled graph on one: same kernels, no pass.
#include "compiler_fixture.h"
#include "spmd_interpreter.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

struct Sizes {
  std::int64_t batch = 2;
  std::int64_t frames = 3;
  std::int64_t height = 5;
  std::int64_t width = 2;
  std::int64_t words = 4;
};

class EqualityTest : public CompilerTest {
 protected:
  NamedTensors inputs(const ToyTransformer& toy, const Sizes& sizes) {
    NamedTensors tensors;
    tensors["latents"] = random_f32({sizes.batch, 4, sizes.frames, sizes.height, sizes.width}, 1);
    tensors["time"] = random_f32({sizes.batch}, 2);
    if (toy.has_text) tensors["text"] = random_f32({sizes.batch, sizes.words, 8}, 3);
    return tensors;
  }

  // Compares every rank's outputs; returns the compiled model.
  CompiledModel expect_equal(const ToyTransformer& toy, const CompileOptions& options,
                             const std::vector<Sizes>& shapes) {
    CompiledModel model = compile_text(toy.text(), options);
    const auto whole = parse_model(toy.text());
    for (const Sizes& sizes : shapes) {
      const NamedTensors tensors = inputs(toy, sizes);
      SpmdInterpreter interpreter(&ops_);
      const auto right = interpreter.run_whole(*whole, tensors, bind_sizes(model.inputs, tensors));
      EXPECT_TRUE(right.ok()) << right.status().to_string();
      const auto ranks = interpreter.run(model, tensors);
      EXPECT_TRUE(ranks.ok()) << ranks.status().to_string();
      if (!right.ok() || !ranks.ok()) return model;
      for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
        EXPECT_LE(relative_error((*ranks)[rank][0], (*right)[0]), 1e-5)
            << "rank " << rank << " of " << options.mesh.to_string();
      }
    }
    return model;
  }
};

TEST_F(EqualityTest, AnyNumberOfRanksGivesTheOneRankResult) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    expect_equal(ToyTransformer(), options(str_cat("cp=", ranks)), {{}, {1, 1, 7, 3, 1}});
  }
}

TEST_F(EqualityTest, FewerTokensThanRanksLeaveSomeRanksEmpty) {
  expect_equal(ToyTransformer(), options("cp=8"), {{1, 1, 1, 3, 2}, {1, 1, 1, 1, 1}});
}

TEST_F(EqualityTest, HeadCountsThatDoNotDivide) {
  for (const auto& [heads, kv_heads, ranks] : {std::tuple{6, 6, 4},
                                               {6, 2, 4},
                                               {12, 4, 8},
                                               {10, 5, 3},
                                               {4, 1, 3},
                                               {9, 3, 2},
                                               {2, 2, 8},
                                               {40, 40, 3},
                                               {40, 8, 3},
                                               {40, 8, 7}}) {
    ToyTransformer toy;
    toy.heads = heads;
    toy.kv_heads = kv_heads;
    expect_equal(toy, options(str_cat("cp=", ranks)), {{}});
  }
}

TEST_F(EqualityTest, GuidanceAxisAloneAndWithTokens) {
  for (const std::string_view mesh : {"cfg=2", "cfg=2,cp=2", "cp=3,cfg=2", "cfg=2,cp=4"}) {
    expect_equal(ToyTransformer(), options(mesh), {{}, {1, 2, 3, 1, 3}, {3, 1, 3, 2, 3}});
  }
}

TEST_F(EqualityTest, WithoutFusionOrHoisting) {
  CompileOptions plain = options("cp=3");
  plain.fuse = false;
  plain.hoist = false;
  expect_equal(ToyTransformer(), plain, {{}});
}

TEST_F(EqualityTest, ConstantsFoldedOnTheWay) {
  cpu::CpuEvaluator evaluator;
  CompileOptions folding = options("cp=3");
  folding.evaluator = &evaluator;
  expect_equal(ToyTransformer(), folding, {{}});
}

TEST_F(EqualityTest, TensorParallelAloneAndWithTheOtherAxes) {
  cpu::CpuEvaluator evaluator;
  for (const std::string_view mesh :
       {"tp=2", "tp=3", "tp=8", "tp=2,cp=2", "cp=2,tp=2", "cfg=2,tp=2", "tp=3,cp=2",
        "cfg=2,tp=2,cp=2", "cfg=2,cp=2,tp=2"}) {
    CompileOptions tensor = options(mesh);
    tensor.evaluator = &evaluator;
    expect_equal(ToyTransformer(), tensor, {{}, {1, 1, 7, 3, 1}});
  }
}

TEST_F(EqualityTest, TensorParallelHeadCountsThatDoNotDivide) {
  for (const auto& [heads, kv_heads, mesh] : {std::tuple{6, 6, "tp=4"},
                                              {6, 2, "tp=4"},
                                              {12, 4, "tp=8"},
                                              {10, 5, "tp=3"},
                                              {4, 1, "tp=3"},
                                              {2, 2, "tp=8"},
                                              {40, 40, "tp=3"},
                                              {40, 8, "tp=3"},
                                              {40, 40, "tp=3,cp=2"},
                                              {6, 6, "tp=4,cp=2"},
                                              {6, 2, "tp=2,cp=3"},
                                              {5, 5, "tp=2,cp=2"}}) {
    ToyTransformer toy;
    toy.heads = heads;
    toy.kv_heads = kv_heads;
    expect_equal(toy, options(mesh), {{}});
  }
}

TEST_F(EqualityTest, ExchangesMoveAsManyBytesAsTheReportSays) {
  for (const int ranks : {2, 3, 4, 8}) {
    const ToyTransformer toy;
    const CompiledModel model = expect_equal(toy, options(str_cat("cp=", ranks)), {});
    const NamedTensors tensors = inputs(toy, {});
    SpmdInterpreter interpreter(&ops_);
    ASSERT_TRUE(interpreter.run(model, tensors).ok());
    std::int64_t reported = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      SymbolMap symbols = bind_sizes(model.inputs, tensors);
      model.mesh.bind(rank, &symbols);
      for (const ExchangeInfo& exchange : model.exchanges) {
        const auto bytes = exchange.sent_bytes.evaluate(symbols);
        ASSERT_TRUE(bytes.ok());
        reported += *bytes;
      }
    }
    EXPECT_EQ(reported, interpreter.moved_bytes()) << ranks << " ranks";
  }
}

// For even pieces: q, k, v and the output each move (n - 1) / n of the elements that do not stay.
TEST_F(EqualityTest, ALayerMovesTheArithmeticMinimum) {
  ToyTransformer toy;
  toy.layers = 1;
  for (const std::int64_t ranks : {2, 4}) {
    const Sizes sizes{2, 2, 4, 2, 3};
    const std::int64_t tokens = sizes.batch * sizes.frames * sizes.height * sizes.width;
    const std::int64_t width = (8 + 4 + 4 + 8) * toy.head_dim;  // q, k, v, output
    const std::int64_t by_heads = tokens * width * 4 * (ranks - 1) / ranks;
    const std::int64_t by_keys = tokens * (4 + 4) * toy.head_dim * 4 * (ranks - 1);
    const std::int64_t output = tokens * 4 * 4 * (ranks - 1);  // all ranks get the whole sample
    for (const bool may_gather : {false, true}) {
      CompileOptions cp = options(str_cat("cp=", ranks));
      if (!may_gather) cp.attention_exchange = AttentionExchange::kHeads;
      SpmdInterpreter interpreter(&ops_);
      ASSERT_TRUE(interpreter.run(compile_text(toy.text(), cp), inputs(toy, sizes)).ok());
      const std::int64_t layer = may_gather ? std::min(by_heads, by_keys) : by_heads;
      EXPECT_EQ(interpreter.moved_bytes(), layer + output) << ranks << " ranks";
    }
  }
}

// Text and video tokens in one attention, in streams of their own around it (as in MMDiT).
std::string joint_transformer(int layers, int single_layers = 0) {
  std::string text =
      "graph @joint (%video: f32[b, s, 16], %text: f32[b, t, 16]) {\n  %w0 = constant f32[16, 16] "
      "data\n"
      "  %v0 = MatMul(%video, %w0)\n  %t0 = Gelu(%text)\n";
  std::string v = "%v0";
  std::string t = "%t0";
  for (int layer = 0; layer < layers; ++layer) {
    const std::string l = str_cat("%l", layer);
    for (const char* part : {"q", "k", "v"}) {
      for (const char* stream : {"t", "v"}) {
        const std::string name = str_cat(l, stream, part);
        const std::string x = stream[0] == 't' ? t : v;
        const std::string tokens = stream[0] == 't' ? "t" : "s";
        text +=
            str_cat("  ", name, "w = constant f32[16, 16] data\n  ", name, "m = MatMul(", x, ", ",
                    name, "w)\n  ", name, "r = Reshape(", name, "m) {shape = dims[b, ", tokens,
                    ", 4, 4]}\n  ", name, " = Transpose(", name, "r) {perm = [0, 2, 1, 3]}\n");
      }
      text +=
          str_cat("  ", l, part, " = Concat(", l, "t", part, ", ", l, "v", part, ") {axis = 2}\n");
    }
    text += str_cat("  ", l, "a = Attention(", l, "q, ", l, "k, ", l,
                    "v) {layout = \"bhsd\", scale = 0.5}\n  ", l, "at = Transpose(", l,
                    "a) {perm = [0, 2, 1, 3]}\n  ", l, "af = Reshape(", l,
                    "at) {shape = dims[b, s+t, 16]}\n");
    text += str_cat("  ", l, "ot = Slice(", l,
                    "af) {axes = [1], starts = dims[0], ends = dims[t], steps = [1]}\n  ", l,
                    "ov = Slice(", l,
                    "af) {axes = [1], starts = dims[t], ends = dims[s+t], steps = [1]}\n");
    for (const char* stream : {"t", "v"}) {
      const std::string name = str_cat(l, stream);
      text += str_cat("  ", name, "w = constant f32[16, 16] data\n  ", name, "p = MatMul(", l, "o",
                      stream, ", ", name, "w)\n  ", name, "x = Add(", stream[0] == 't' ? t : v,
                      ", ", name, "p)\n");
    }
    t = l + "tx";
    v = l + "vx";
  }
  if (single_layers == 0) return text + "  %y = Silu(" + v + ")\n  return %y, " + t + "\n}\n";
  // One stream from here on (as in Flux): text and video tokens in one sequence, cut apart at the
  // end.
  text += "  %j0 = Concat(" + t + ", " + v + ") {axis = 1}\n";
  for (int layer = 0; layer < single_layers; ++layer) {
    const std::string j = str_cat("%j", layer);
    text += str_cat("  ", j, "n = LayerNormalization(", j, ") {axis = 2, epsilon = 0.001}\n");
    for (const char* part : {"q", "k", "v"}) {
      const std::string name = j + part;
      text +=
          str_cat("  ", name, "w = constant f32[16, 16] data\n  ", name, "m = MatMul(", j, "n, ",
                  name, "w)\n  ", name, "r = Reshape(", name, "m) {shape = dims[b, s+t, 4, 4]}\n  ",
                  name, " = Transpose(", name, "r) {perm = [0, 2, 1, 3]}\n");
    }
    text += str_cat(
        "  ", j, "a = Attention(", j, "q, ", j, "k, ", j, "v) {layout = \"bhsd\", scale = 0.5}\n  ",
        j, "at = Transpose(", j, "a) {perm = [0, 2, 1, 3]}\n  ", j, "af = Reshape(", j,
        "at) {shape = dims[b, s+t, 16]}\n  ", j, "pw = constant f32[16, 16] data\n  ", j,
        "p = MatMul(", j, "af, ", j, "pw)\n  %j", layer + 1, " = Add(", j, ", ", j, "p)\n");
  }
  text += str_cat("  %last = Slice(%j", single_layers,
                  ") {axes = [1], starts = dims[t], ends = dims[s+t], steps = [1]}\n");
  return text + "  %y = Silu(%last)\n  return %y\n}\n";
}

TEST_F(EqualityTest, JoinedSequencesAreSplitEachByItself) {
  const int layers = 2;
  const std::string text = joint_transformer(layers);
  for (const int ranks : {2, 3, 4}) {
    const CompiledModel model = compile_text(text, options(str_cat("cp=", ranks)));
    // All of q, k, v of both streams travel in one exchange; both results in another.
    ASSERT_EQ(model.exchanges.size(), static_cast<std::size_t>(2 * layers + 1)) << model.explain;
    for (int layer = 0; layer < layers; ++layer) {
      EXPECT_EQ(model.exchanges[static_cast<std::size_t>(2 * layer)].values.size(), 6U);
      EXPECT_EQ(model.exchanges[static_cast<std::size_t>(2 * layer) + 1].values.size(), 2U);
    }
    for (const auto& node : model.main->nodes()) {
      if (node->type() != "Linear") continue;
      EXPECT_NE(model.layouts.at(node->output()->name()).layout.on_axis(0), nullptr)
          << node->output()->name() << " is computed on every rank";
    }
    const NamedTensors tensors = {{"video", random_f32({2, 9, 16}, 1)},
                                  {"text", random_f32({2, 5, 16}, 2)}};
    SpmdInterpreter interpreter(&ops_);
    const auto right =
        interpreter.run_whole(*parse_model(text), tensors, {{"b", 2}, {"s", 9}, {"t", 5}});
    const auto found = interpreter.run(model, tensors);
    ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
    for (const auto& outputs : *found) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_LE(relative_error(outputs[i], (*right)[i]), 1e-5);
    }
  }
}

TEST_F(EqualityTest, OneStreamOfJoinedSequencesStaysInPieces) {
  const int layers = 2;
  const int single = 3;
  const std::string text = joint_transformer(layers, single);
  for (const std::string_view mesh : {"cp=2", "cp=3", "cp=4", "cfg=2,cp=2", "tp=2,cp=2"}) {
    const CompileOptions joined = options(mesh);
    const CompiledModel model = compile_text(text, joined);
    std::map<std::string, int> kinds;
    for (const ExchangeInfo& exchange : model.exchanges) {
      if (exchange.axis == "cp") ++kinds[exchange.kind];
    }
    // Two a layer, and the video tokens at the end: joining and cutting apart moves nothing.
    EXPECT_EQ(kinds,
              (std::map<std::string, int>{{"AllToAll", 2 * (layers + single)}, {"AllGather", 1}}))
        << mesh << "\n"
        << model.explain;
    const int cp = joined.mesh.find("cp");
    for (const auto& node : model.main->nodes()) {
      if (node->type() != "Linear" && node->type() != "MatMul") continue;
      EXPECT_NE(model.layouts.at(node->output()->name()).layout.on_axis(cp), nullptr)
          << node->output()->name() << " is computed on every rank";
    }
    for (const auto& [s, t] : {std::pair{9, 5}, {8, 4}, {7, 1}}) {
      const NamedTensors tensors = {{"video", random_f32({2, s, 16}, 1)},
                                    {"text", random_f32({2, t, 16}, 2)}};
      SpmdInterpreter interpreter(&ops_);
      const auto right =
          interpreter.run_whole(*parse_model(text), tensors, {{"b", 2}, {"s", s}, {"t", t}});
      const auto found = interpreter.run(model, tensors);
      ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5);
    }
  }
}

// One joint stream whose queries and keys are taken apart in front of each attention, because only
// the video's are turned (as in CogView). `turns_all`: they stay in one and are turned by a table
// that was concatenated instead.
std::string turned_transformer(int layers, bool turns_all) {
  std::string text =
      "graph @turned (%video: f32[b, s, 16], %text: f32[b, t, 16], %turn.v: f32[s, 4], "
      "%turn.t: f32[t, 4]) {\n  %x.0 = Concat(%text, %video) {axis = 1}\n"
      "  %turn = Concat(%turn.t, %turn.v) {axis = 0}\n";
  for (int layer = 0; layer < layers; ++layer) {
    const std::string l = str_cat("%l", layer);
    text +=
        str_cat("  ", l, "n = LayerNormalization(%x.", layer, ") {axis = 2, epsilon = 0.001}\n");
    for (const std::string part : {"q", "k", "v"}) {
      const std::string name = l + part;
      text +=
          str_cat("  ", name, "w = constant f32[16, 16] data\n  ", name, "m = MatMul(", l, "n, ",
                  name, "w)\n  ", name, "r = Reshape(", name, "m) {shape = dims[b, s+t, 4, 4]}\n  ",
                  name, "h = Transpose(", name, "r) {perm = [0, 2, 1, 3]}\n");
      if (part == "v") {
        text += str_cat("  ", name, " = Tanh(", name, "h)\n");
      } else if (turns_all) {
        text += str_cat("  ", name, " = Mul(", name, "h, %turn)\n");
      } else {
        text += str_cat("  ", name, "t = Slice(", name,
                        "h) {axes = [2], starts = dims[0], ends = dims[t], steps = [1]}\n  ", name,
                        "v = Slice(", name,
                        "h) {axes = [2], starts = dims[t], ends = dims[s+t], steps = [1]}\n  ",
                        name, "vt = Mul(", name, "v, %turn.v)\n  ", name, " = Concat(", name, "t, ",
                        name, "vt) {axis = 2}\n");
      }
    }
    text += str_cat(
        "  ", l, "a = Attention(", l, "q, ", l, "k, ", l, "v) {layout = \"bhsd\", scale = 0.5}\n  ",
        l, "at = Transpose(", l, "a) {perm = [0, 2, 1, 3]}\n  ", l, "af = Reshape(", l,
        "at) {shape = dims[b, s+t, 16]}\n  ", l, "pw = constant f32[16, 16] data\n  ", l,
        "p = MatMul(", l, "af, ", l, "pw)\n  %x.", layer + 1, " = Add(%x.", layer, ", ", l, "p)\n");
  }
  const std::string last = str_cat("%x.", layers);
  return text + "  %y = Slice(" + last +
         ") {axes = [1], starts = dims[t], ends = dims[s+t], steps = [1]}\n  return %y\n}\n";
}

TEST_F(EqualityTest, PartsThatAreTurnedByThemselvesStayInPieces) {
  const int layers = 2;
  for (const bool turns_all : {false, true}) {
    const std::string text = turned_transformer(layers, turns_all);
    for (const std::string_view mesh : {"cp=2", "cp=3"}) {
      const CompiledModel model = compile_text(text, options(mesh));
      std::map<std::string, int> kinds;
      for (const ExchangeInfo& exchange : model.exchanges) ++kinds[exchange.kind];
      EXPECT_EQ(kinds, (std::map<std::string, int>{{"AllToAll", 2 * layers}, {"AllGather", 1}}))
          << model.explain;
      for (const auto& node : model.main->nodes()) {
        if (node->type() != "Linear") continue;
        EXPECT_NE(model.layouts.at(node->output()->name()).layout.on_axis(0), nullptr)
            << node->output()->name() << " is computed on every rank";
      }
      const NamedTensors tensors = {{"video", random_f32({2, 9, 16}, 1)},
                                    {"text", random_f32({2, 5, 16}, 2)},
                                    {"turn.v", random_f32({9, 4}, 3)},
                                    {"turn.t", random_f32({5, 4}, 4)}};
      SpmdInterpreter interpreter(&ops_);
      const auto right =
          interpreter.run_whole(*parse_model(text), tensors, {{"b", 2}, {"s", 9}, {"t", 5}});
      const auto found = interpreter.run(model, tensors);
      ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5);
    }
  }
}

TEST_F(EqualityTest, TensorParallelProductsSumToTheWhole) {
  constexpr std::string_view kMlp = R"(graph @mlp (%x: f32[b, 16]) {
    %w1 = constant f32[16, 21] data
    %w2 = constant f32[21, 16] data
    %h = MatMul(%x, %w1)
    %a = Silu(%h)
    %y = MatMul(%a, %w2)
    %z = Add(%y, %x)
    return %z
  })";
  for (const int ranks : {2, 3, 4}) {
    CompileOptions tp = options(str_cat("tp=", ranks));
    tp.seeds = {{"w1", 1, "tp"}};
    const CompiledModel model = compile_text(kMlp, tp);
    EXPECT_EQ(model.exchanges.size(), 1U);
    const NamedTensors tensors = {{"x", random_f32({5, 16}, 1)}};
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*parse_model(kMlp), tensors, {{"b", 5}});
    const auto found = interpreter.run(model, tensors);
    ASSERT_TRUE(right.ok() && found.ok()) << found.status().to_string();
    for (const auto& outputs : *found) EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5);
  }
}

}  // namespace
}  // namespace tutti
