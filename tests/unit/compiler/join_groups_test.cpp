// Attention within groups of tokens, on ranks whose pieces are not whole groups.
#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

// Three frames of four tokens ask each other, then their own two faces each.
constexpr std::string_view kFrames = R"(graph @g (%x: f32[1, 12, 8], %faces: f32[3, 2, 8]) {
    %wq = constant f32[8, 8] data
    %wk = constant f32[8, 8] data
    %wg = constant f32[8, 8] data
    %wo = constant f32[8, 8] data
    %q = MatMul(%x, %wq)
    %h = Reshape(%q) {shape = dims[1, 12, 4, 2]}
    %a = Attention(%h, %h, %h) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %f = Reshape(%a) {shape = dims[1, 12, 8]}
    %p = MatMul(%f, %wg)
    %g = Reshape(%p) {shape = dims[3, 4, 4, 2]}
    %k = MatMul(%faces, %wk)
    %kh = Reshape(%k) {shape = dims[3, 2, 4, 2]}
    %b = Attention(%g, %kh, %kh) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %t = Reshape(%b) {shape = dims[1, 12, 8]}
    %o = MatMul(%t, %wo)
    %y = Add(%o, %f)
    return %y
  })";

class JoinGroupsTest : public CompilerTest {
 protected:
  CompileOptions with_steady(std::string_view mesh, std::vector<std::string> steady = {"faces"}) {
    CompileOptions out = options(mesh);
    out.invariant_inputs = std::move(steady);
    return out;
  }

  // How many attentions have a mask now.
  int joined(const CompileOptions& options) {
    const auto graph = parse(kFrames);
    EXPECT_TRUE(join_groups(*graph, options, 0).ok());
    EXPECT_TRUE(graph->verify().ok());
    int masked = 0;
    for (const auto& node : graph->nodes()) {
      masked += node->type() == "Attention" && node->inputs().size() > 3 ? 1 : 0;
    }
    return masked;
  }
};

TEST_F(JoinGroupsTest, TheGroupsBecomeOneSequenceBehindAMask) {
  const auto graph = parse(R"(graph @g (%p: f32[b, 4, 8], %k: f32[b*2, 1, 4, 2]) {
    %g = Reshape(%p) {shape = dims[b*2, 2, 4, 2]}
    %a = Attention(%g, %k, %k) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %t = Reshape(%a) {shape = dims[b, 4, 8]}
    return %t
  })");
  const auto expected = parse(R"(graph @g (%p: f32[b, 4, 8], %k: f32[b*2, 1, 4, 2]) {
    %m = constant bool[4, 2] [true, false, true, false, false, true, false, true]
    %h = Reshape(%p) {shape = dims[b, 4, 4, 2]}
    %j = Reshape(%k) {shape = dims[b, 2, 4, 2]}
    %a = Attention(%h, %j, %j, %m) {scale = 0.5, is_causal = 0, layout = "bshd"}
    %t = Reshape(%a) {shape = dims[b, 4, 8]}
    return %t
  })");
  ASSERT_TRUE(join_groups(*graph, with_steady("cp=4", {"k"}), 0).ok());
  EXPECT_EQ(canonical(*graph), canonical(*expected));
}

TEST_F(JoinGroupsTest, OnlyWherePiecesAreNotWholeGroups) {
  EXPECT_EQ(joined(with_steady("cp=2")), 1);
  EXPECT_EQ(joined(with_steady("cp=3")), 0);
  EXPECT_EQ(joined(with_steady("cp=4")), 1);
}

// They would be in pieces, too.
TEST_F(JoinGroupsTest, NotWhereKeysChange) { EXPECT_EQ(joined(with_steady("cp=2", {})), 0); }

TEST_F(JoinGroupsTest, NotWhereClosedScoresCostMoreThanTheExchange) {
  CompileOptions slow = with_steady("cp=2");
  slow.rates.flops_per_second = 1e6;
  EXPECT_EQ(joined(slow), 0);
}

TEST_F(JoinGroupsTest, NothingTravelsToKeysThatEveryRankHas) {
  const NamedTensors inputs = {{"x", random_f32({1, 12, 8}, 1)},
                               {"faces", random_f32({3, 2, 8}, 2)}};
  const auto whole = parse_model(kFrames);
  SpmdInterpreter interpreter(&ops_);
  const auto right = interpreter.run_whole(*whole, inputs, {});
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  for (const char* mesh : {"cp=2", "cp=3", "cp=4"}) {
    const CompiledModel compiled = compile_text(kFrames, with_steady(mesh));
    std::map<std::string, int> kinds;
    for (const ExchangeInfo& exchange : compiled.exchanges) ++kinds[exchange.kind];
    // To heads and back in the first attention, and the result.
    EXPECT_EQ(kinds, (std::map<std::string, int>{{"AllToAll", 2}, {"AllGather", 1}}))
        << mesh << "\n"
        << compiled.explain;
    const auto found = interpreter.run(compiled, inputs);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    for (const auto& outputs : *found) {
      EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5) << mesh;
    }
  }
}

}  // namespace
}  // namespace tutti
