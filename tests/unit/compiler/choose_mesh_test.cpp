// The automatic mesh: what it chooses where, what it says, and memory limits.
#include "compiler/choose_mesh.h"

#include <gmock/gmock.h>

#include "backends/cpu/evaluator.h"
#include "compiler/device_profile.h"
#include "compiler/memory_use.h"
#include "compiler_fixture.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ChooseMeshTest : public CompilerTest {
 protected:
  CompileOptions automatic(int ranks, SymbolMap sizes) {
    CompileOptions out = options();
    out.evaluator = &evaluator_;
    out.auto_ranks = ranks;
    out.typical_sizes = std::move(sizes);
    return out;
  }

  static SymbolMap sizes(std::int64_t batch, std::int64_t frames) {
    return {{"batch", batch}, {"frames", frames}, {"height", 64}, {"width", 64}, {"words", 16}};
  }

  static ToyTransformer wide() {
    ToyTransformer toy;
    toy.heads = 8;
    toy.kv_heads = 8;
    toy.head_dim = 64;
    return toy;
  }

  cpu::CpuEvaluator evaluator_;
};

TEST_F(ChooseMeshTest, LongSequencesAreSplitAlongTokens) {
  const auto model = compile_text(wide().text(), automatic(4, sizes(1, 64)));
  EXPECT_EQ(model.mesh.to_string(), "cp=4") << model.explain;
}

TEST_F(ChooseMeshTest, AGuidedBatchOfTwoRunsSideBySide) {
  const auto model = compile_text(wide().text(), automatic(2, sizes(2, 16)));
  EXPECT_EQ(model.mesh.to_string(), "cfg=2") << model.explain;
  const auto four = compile_text(wide().text(), automatic(4, sizes(2, 16)));
  EXPECT_EQ(four.mesh.to_string(), "cfg=2,cp=2") << four.explain;
}

TEST_F(ChooseMeshTest, AModelThatIsTooLargeForOneDeviceSplitsItsWeights) {
  const SymbolMap short_sequence = {
      {"batch", 1}, {"frames", 1}, {"height", 4}, {"width", 4}, {"words", 4}};
  CompileOptions one = automatic(0, short_sequence);
  const auto whole = compile_text(wide().text(), one);
  CompileOptions limited = automatic(4, short_sequence);
  limited.memory_limit = 0.5 * whole.memory[0].total();
  const auto model = compile_text(wide().text(), limited);
  EXPECT_EQ(model.mesh.to_string(), "tp=4") << model.explain;
  EXPECT_THAT(model.explain, HasSubstr("cp=4: "));
  EXPECT_THAT(model.explain, HasSubstr("does not fit"));
  for (const RankBytes& rank : model.memory) EXPECT_LE(rank.total(), limited.memory_limit);
}

TEST_F(ChooseMeshTest, TheChoiceIsExplainedByTerms) {
  const auto model = compile_text(wide().text(), automatic(4, sizes(2, 16)));
  EXPECT_THAT(model.explain,
              AllOf(HasSubstr("meshes of 4 ranks"), HasSubstr("  cfg=2,cp=2: "),
                    HasSubstr("  tp=2,cp=2: "), HasSubstr("= compute "), HasSubstr(" + weights "),
                    HasSubstr(" + link "), HasSubstr("chosen: cfg=2,cp=2; ")));
}

TEST_F(ChooseMeshTest, WhereNothingFitsTheErrorSaysHowMuchWhichRankNeeds) {
  CompileOptions limited = automatic(2, sizes(1, 1));
  limited.memory_limit = 1000;
  const auto model = compile(parse_model(wide().text()), limited);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr("no mesh of 2 ranks fits"), HasSubstr("1000 bytes"),
                    HasSubstr("rank 0 needs "), HasSubstr("rank 1 needs "), HasSubstr("weights")));
}

TEST_F(ChooseMeshTest, AMeshThatIsGivenIsHeldToTheLimit) {
  CompileOptions limited = options("cp=2");
  limited.memory_limit = 1000;
  const auto model = compile(parse_model(wide().text()), limited);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("rank 1 needs "));
}

TEST_F(ChooseMeshTest, TheLimitMakesTensorParallelismSplitEveryWeight) {
  // One row: the large product is cheaper whole, a gather costs more than it saves.
  constexpr std::string_view kText = R"(graph @g (%x: f32[1, 64]) {
    %w = constant f32[64, 512] data
    %h = MatMul(%x, %w)
    %n = Softmax(%h) {axis = 1}
    return %n
  })";
  CompileOptions tp = options("tp=4");
  EXPECT_EQ(compile_text(kText, tp).exchanges.size(), 0U);
  tp.memory_limit = 64 * 512 * 4 / 2;
  const auto model = compile_text(kText, tp);
  EXPECT_EQ(model.exchanges.size(), 1U);
  EXPECT_LE(model.memory[0].weights, 64 * 512 * 4 / 4);
}

TEST_F(ChooseMeshTest, TheLimitSplitsTablesOfEmbeddingsAlongFeatures) {
  constexpr std::string_view kText = R"(graph @g (%ids: i64[b, t]) {
    %table = constant f32[1000, 64] data
    %x = Gather(%table, %ids) {axis = 0}
    %n = Softmax(%x) {axis = 2}
    return %n
  })";
  CompileOptions tp = options("tp=4");
  tp.hoist = false;
  tp.typical_sizes = {{"b", 1}, {"t", 2}};
  EXPECT_EQ(compile_text(kText, tp).memory[0].weights, 1000 * 64 * 4);
  tp.memory_limit = 1000 * 64 * 4 / 3;
  const auto model = compile_text(kText, tp);
  EXPECT_EQ(model.memory[0].weights, 1000 * 64 * 4 / 4);
  ASSERT_EQ(model.exchanges.size(), 1U);
  EXPECT_EQ(model.exchanges[0].kind, "AllGather");
}

TEST_F(ChooseMeshTest, WeightsOfRanksAddUpToTheWhole) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[b, 64]) {
    %w1 = constant f32[64, 100] data
    %w2 = constant f32[100, 64] data
    %h = MatMul(%x, %w1)
    %a = Relu(%h)
    %y = MatMul(%a, %w2)
    return %y
  })";
  const auto model = compile_text(kText, options("tp=3"));
  double sum = 0;
  for (const RankBytes& rank : model.memory) sum += rank.weights;
  EXPECT_EQ(sum, 2 * 64 * 100 * 4);
  EXPECT_EQ(model.memory[0].weights, 2 * 64 * 34 * 4);
}

TEST_F(ChooseMeshTest, ActivationsAreThoseAliveAtOnce) {
  const auto graph = parse(R"(graph @g (%x: f32[10]) {
    %a = Exp(%x)
    %b = Reshape(%a) {shape = dims[2, 5]}
    %c = Softmax(%b) {axis = 1}
    %d = CumSum(%c) {axis = 0, exclusive = 0, reverse = 0}
    return %d
  })");
  const auto ranks = memory_by_rank(*graph, nullptr, Mesh(), {});
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0].activations, 2 * 10 * 4);  // a view costs nothing
  EXPECT_EQ(ranks[0].weights, 0);
}

TEST_F(ChooseMeshTest, DeviceProfilesHaveNames) {
  EXPECT_TRUE(device_profile("h200").ok());
  EXPECT_LT(device_profile("cpu")->rates.flops_per_second,
            device_profile("h200")->rates.flops_per_second);
  EXPECT_THAT(device_profile("tpu").status().message(), HasSubstr("[h200, cpu]"));
}

}  // namespace
}  // namespace tutti
