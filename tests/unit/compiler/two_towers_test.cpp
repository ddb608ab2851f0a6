// Text and video packed into one sequence: the text tower runs once a prompt, the video tower is
// split with two exchanges a layer.
#include "two_towers.h"

#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class TwoTowersTest : public CompilerTest {
 protected:
  NamedTensors inputs(const TwoTowers& model) {
    std::vector<std::int64_t> ids;
    for (int i = 0; i < model.words; ++i) ids.push_back(i * 3 % 10);
    return {{"ids", Tensor::ints(ids)},
            {"patches", random_f32({model.patches, 6}, 1)},
            {"time", random_f32({model.patches}, 2)}};
  }

  CompiledModel compile_towers(const TwoTowers& model, std::string_view mesh) {
    cpu::CpuEvaluator evaluator;
    CompileOptions with = options(mesh);
    with.evaluator = &evaluator;
    return compile_text(model.text(), with);
  }
};

TEST_F(TwoTowersTest, IdsAreInvariantThoughTheyShapeAnAttention) {
  EXPECT_EQ(compile_towers({}, "cp=2").invariant_inputs, std::vector<std::string>{"ids"});
}

TEST_F(TwoTowersTest, TheTextTowerIsAllInThePrologue) {
  const TwoTowers model;
  const CompiledModel compiled = compile_towers(model, "cp=4");
  ASSERT_NE(compiled.prologue, nullptr);
  // One causal attention a layer but for the last layer's, whose result nobody reads.
  EXPECT_EQ(count_nodes(*compiled.prologue, "Attention"), model.layers - 1);
  EXPECT_EQ(count_nodes(*compiled.main, "Attention"), model.layers);
  for (const auto& node : compiled.main->nodes()) {
    EXPECT_EQ(node->name().find(".t."), std::string::npos) << node->describe();
    for (const char* type : {"ScatterND", "ScatterElements", "Gather"}) {
      EXPECT_NE(node->type(), type) << node->describe();
    }
  }
  for (const Value* value : compiled.main->values()) {
    if (value->is_constant()) continue;
    EXPECT_FALSE(value->shape() == Shape({model.words + model.patches, 16})) << value->name();
  }
}

TEST_F(TwoTowersTest, AVideoLayerCostsTwoExchanges) {
  for (const int layers : {1, 3}) {
    TwoTowers model;
    model.layers = layers;
    const CompiledModel compiled = compile_towers(model, "cp=4");
    std::vector<std::string> kinds;
    for (const ExchangeInfo& exchange : compiled.exchanges) {
      if (!exchange.in_prologue) kinds.push_back(exchange.kind);
    }
    std::vector<std::string> expected(static_cast<std::size_t>(2 * layers), "AllToAll");
    expected.emplace_back("AllGather");  // of the output
    EXPECT_EQ(kinds, expected) << compiled.explain;
  }
}

// The prompt's keys and values change hands once a prompt, however the attention reads them.
TEST_F(TwoTowersTest, OnlyTheVideoTravelsInEveryCall) {
  TwoTowers model;
  const auto bytes = [&](int words) {
    model.words = words;
    const CompiledModel compiled = compile_towers(model, "cp=4");
    std::vector<std::string> sent;
    for (const ExchangeInfo& exchange : compiled.exchanges) {
      if (!exchange.in_prologue) sent.push_back(exchange.sent_bytes.to_string());
    }
    return sent;
  };
  EXPECT_EQ(bytes(5), bytes(9));
}

TEST_F(TwoTowersTest, AnyNumberOfRanksGivesTheOneRankResult) {
  for (const auto& [words, patches] : {std::pair{5, 11}, {1, 1}, {3, 2}, {7, 8}}) {
    TwoTowers model;
    model.words = words;
    model.patches = patches;
    const auto whole = parse_model(model.text());
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs(model), {});
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    for (const char* mesh : {"", "cp=2", "cp=3", "cp=4", "cp=8"}) {
      const auto found = interpreter.run(compile_towers(model, mesh), inputs(model));
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      for (const auto& outputs : *found) {
        EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
