#include <gmock/gmock.h>

#include "compiler_fixture.h"
#include "spmd_interpreter.h"

namespace tutti {
namespace {

class FuseRowsTest : public CompilerTest {
 protected:
  // After the pass; the numbers are those of the graph before it.
  std::unique_ptr<Graph> fused(std::string_view text,
                               const SymbolMap& sizes = {{"b", 2}, {"t", 5}}) {
    const auto before = parse(text);
    auto after = parse(text);
    for (const auto pass : {fuse_pointwise, fuse_rows}) {
      const Status status = pass(*after, options());
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
    NamedTensors inputs;
    unsigned seed = 1;
    for (const Value* input : before->inputs()) {
      inputs[input->name()] = random_f32(*evaluate(input->shape(), sizes), seed++);
    }
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*before, inputs, sizes);
    const auto got = interpreter.run_whole(*after, inputs, sizes);
    EXPECT_TRUE(right.ok()) << right.status().to_string();
    EXPECT_TRUE(got.ok()) << got.status().to_string();
    if (!right.ok() || !got.ok()) return after;
    for (std::size_t i = 0; i < right->size(); ++i) {
      EXPECT_LE(relative_error((*got)[i], (*right)[i]), 1e-5) << "output " << i;
    }
    return after;
  }

  // Types of the nodes in the body of the only Fused node.
  static std::vector<std::string> body_of(const Graph& graph) {
    const Node* node = find_node(graph, "Fused");
    std::vector<std::string> types;
    if (node == nullptr || count_nodes(graph, "Fused") != 1) return types;
    for (const auto& inner : node->attr_graph("body")->nodes()) types.push_back(inner->type());
    return types;
  }
};

using ::testing::ElementsAre;

TEST_F(FuseRowsTest, ANormTakesWhatScalesAndShiftsIt) {
  expect_pass(fuse_rows, R"(graph @g (%x: f32[b, t, 8], %s: f32[b, 1, 8]) {
    %n = LayerNormalization(%x) {axis = 2, epsilon = 1e-5}
    %y = Mul(%n, %s)
    return %y
  })",
              R"(graph @g (%x: f32[b, t, 8], %s: f32[b, 1, 8]) {
    %y = Fused(%x, %s) {body = graph (%v0: f32[b, t, 8], %v2: f32[b, 1, 8]) {
      %v1 = LayerNormalization(%v0) {axis = 2, epsilon = 1e-5}
      %v3 = Mul(%v1, %v2)
      return %v3
    }}
    return %y
  })");
}

TEST_F(FuseRowsTest, AGatedResidualIsWrittenByTheNormThatReadsIt) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %y: f32[b, t, 8], %g: f32[b, 1, 8],
                                         %s: f32[b, 1, 8], %w: f32[8, 8]) {
    %gy = Mul(%g, %y)
    %r = Add(%x, %gy)
    %n = LayerNormalization(%r) {axis = 2, epsilon = 1e-5}
    %m = Mul(%n, %s)
    %p = MatMul(%m, %w)
    %z = Add(%p, %r)
    return %z
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("Pointwise", "LayerNormalization", "Mul"));
  EXPECT_EQ(find_node(*graph, "Fused")->outputs().size(), 2U);
  EXPECT_EQ(graph->nodes().size(), 3U);  // and the product, and the second residual
}

TEST_F(FuseRowsTest, HalvesThatTurnFollowTheirNorm) {
  const auto graph =
      fused(R"(graph @g (%x: f32[b, t, 3, 8], %w: f32[8], %c: f32[t, 1, 8], %s: f32[t, 1, 8]) {
    %n = RMSNormalization(%x, %w) {axis = 3, epsilon = 1e-6}
    %l = Mul(%n, %c)
    %a, %h = Split(%n) {axis = 3, sizes = dims[4, 4]}
    %m = Neg(%h)
    %q = Concat(%m, %a) {axis = 3}
    %r = Mul(%q, %s)
    %y = Add(%l, %r)
    %f = Reshape(%y) {shape = dims[b, t, 24]}
    return %f
  })");
  EXPECT_EQ(count_nodes(*graph, "Fused"), 1);
  EXPECT_EQ(count_nodes(*graph, "Reshape"), 1);
  EXPECT_EQ(graph->nodes().size(), 2U);
  EXPECT_EQ(find_node(*graph, "Fused")->outputs().size(), 1U);
}

TEST_F(FuseRowsTest, PairsThatTurnFollowTheirNormAlsoOverAllHeads) {
  const auto graph =
      fused(R"(graph @g (%x: f32[b, t, 24], %w: f32[24], %c: f32[t, 1, 4], %s: f32[t, 1, 4]) {
    %n = RMSNormalization(%x, %w) {axis = 2, epsilon = 1e-6}
    %p = Reshape(%n) {shape = dims[b, t, 3, 4, 2]}
    %a1, %b1 = Split(%p) {axis = 4, sizes = dims[1, 1]}
    %a = Reshape(%a1) {shape = dims[b, t, 3, 4]}
    %h = Reshape(%b1) {shape = dims[b, t, 3, 4]}
    %ac = Mul(%a, %c)
    %hs = Mul(%h, %s)
    %e = Sub(%ac, %hs)
    %as = Mul(%a, %s)
    %hc = Mul(%h, %c)
    %o = Add(%as, %hc)
    %e1 = Reshape(%e) {shape = dims[b, t, 3, 4, 1]}
    %o1 = Reshape(%o) {shape = dims[b, t, 3, 4, 1]}
    %q = Concat(%e1, %o1) {axis = 4}
    %y = Reshape(%q) {shape = dims[b, t, 3, 8]}
    %z = Neg(%y)
    return %z
  })");
  EXPECT_EQ(count_nodes(*graph, "Fused"), 1);
  EXPECT_EQ(graph->nodes().size(), 1U);
}

TEST_F(FuseRowsTest, RotationWithoutANormIsOneNode) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 3, 8], %c: f32[t, 1, 8], %s: f32[t, 1, 8]) {
    %l = Mul(%x, %c)
    %a, %h = Split(%x) {axis = 3, sizes = dims[4, 4]}
    %m = Neg(%h)
    %q = Concat(%m, %a) {axis = 3}
    %r = Mul(%q, %s)
    %y = Add(%l, %r)
    return %y
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("Split", "Neg", "Concat", "Pointwise"));
  EXPECT_EQ(graph->nodes().size(), 1U);
}

TEST_F(FuseRowsTest, AGateReadsHalvesOfOneProduct) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 4], %w: f32[4, 16]) {
    %p = MatMul(%x, %w)
    %g, %u = Split(%p) {axis = 2, sizes = dims[8, 8]}
    %a = Silu(%g)
    %y = Mul(%a, %u)
    return %y
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("Split", "Pointwise"));
}

TEST_F(FuseRowsTest, ANormAloneStaysWhatItIs) {
  constexpr std::string_view kText = R"(graph @g (%x: f32[b, t, 8], %w: f32[8, 8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %p = MatMul(%n, %w)
    return %p
  })";
  expect_pass(fuse_rows, kText, kText);
}

TEST_F(FuseRowsTest, TwoNormsAreTwoNodes) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %s: f32[8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %m = Mul(%n, %s)
    %k = RMSNormalization(%m) {axis = 2, epsilon = 1e-6}
    %y = Exp(%k)
    return %y
  })");
  EXPECT_EQ(count_nodes(*graph, "Fused"), 2);
}

TEST_F(FuseRowsTest, JoinedTokensAreNoRows) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %z: f32[b, 3, 8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %j = Concat(%n, %z) {axis = 1}
    %y = Exp(%j)
    return %y
  })");
  EXPECT_EQ(count_nodes(*graph, "Fused"), 0);
}

TEST_F(FuseRowsTest, AGroupNeverWaitsForItself) {
  // The product stands between the norm and the last node, which may not join.
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %s: f32[8], %w: f32[8, 8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %m = Mul(%n, %s)
    %p = MatMul(%m, %w)
    %y = Add(%p, %m)
    return %y
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("RMSNormalization", "Mul"));
}

TEST_F(FuseRowsTest, TwoGroupsNeverWaitForEachOther) {
  // Each reads something of the other: together as two nodes, neither could come first.
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %z: f32[b, t, 8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %k = RMSNormalization(%z) {axis = 2, epsilon = 1e-6}
    %a = Mul(%n, %k)
    %c = Silu(%k)
    %p = Softmax(%n) {axis = 2}
    %d = Mul(%c, %p)
    %q = Softmax(%d) {axis = 2}
    %e = Mul(%a, %q)
    return %e
  })");
  EXPECT_GE(count_nodes(*graph, "Fused"), 1);
}

TEST_F(FuseRowsTest, ResultsOfOtherLengthsStayOutside) {
  // Half of the norm is read elsewhere: its row is shorter than the others.
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %s: f32[8]) {
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %m = Mul(%n, %s)
    %a, %h = Split(%m) {axis = 2, sizes = dims[4, 4]}
    %y = Exp(%a)
    return %m, %y, %h
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("RMSNormalization", "Mul"));
}

TEST_F(FuseRowsTest, AViewWithoutReadersInsideStaysOutside) {
  // Pairs of what the norm gives, of which the group cannot take the first halves.
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %s: f32[8], %c: f32[t, 4]) {
    %n = RMSNormalization(%x, %s) {axis = 2, epsilon = 1e-6}
    %r = Relu(%n)
    %p = Reshape(%r) {shape = dims[b, t, 4, 2]}
    %a = Slice(%p) {axes = [3], starts = dims[0], ends = dims[1], steps = [1]}
    %h = Reshape(%a) {shape = dims[b, t, 4]}
    %y = Mul(%h, %c)
    return %y, %r
  })");
  EXPECT_THAT(body_of(*graph), ElementsAre("RMSNormalization", "Relu"));
}

TEST_F(FuseRowsTest, AValueAndAViewOfItAreOneResult) {
  const auto graph = fused(R"(graph @g (%x: f32[b, t, 8], %s: f32[8], %c: f32[t, 4, 2]) {
    %n = RMSNormalization(%x, %s) {axis = 2, epsilon = 1e-6}
    %p = Reshape(%n) {shape = dims[b, t, 4, 2]}
    %y = Mul(%p, %c)
    %q = Reshape(%y) {shape = dims[b, t, 2, 4]}
    %z = Exp(%q)
    return %n, %p, %q, %z
  })");
  EXPECT_EQ(find_node(*graph, "Fused")->outputs().size(), 3U);
  EXPECT_EQ(count_nodes(*graph, "Reshape"), 2);
}

TEST_F(FuseRowsTest, ACompiledModelIsFusedOnEveryMesh) {
  constexpr std::string_view kText =
      R"(graph @g (%x: f32[b, t, 8], %c: f32[t, 1, 4], %s: f32[t, 1, 4]) {
    %wq = constant f32[8, 8] data
    %wk = constant f32[8, 8] data
    %wv = constant f32[8, 8] data
    %wo = constant f32[8, 8] data
    %n = RMSNormalization(%x) {axis = 2, epsilon = 1e-6}
    %q0 = MatMul(%n, %wq)
    %k0 = MatMul(%n, %wk)
    %v0 = MatMul(%n, %wv)
    %q = Reshape(%q0) {shape = dims[b, t, 2, 4]}
    %k = Reshape(%k0) {shape = dims[b, t, 2, 4]}
    %v = Reshape(%v0) {shape = dims[b, t, 2, 4]}
    %qn = RMSNormalization(%q) {axis = 3, epsilon = 1e-6}
    %ql = Mul(%qn, %c)
    %qa, %qh = Split(%qn) {axis = 3, sizes = dims[2, 2]}
    %qm = Neg(%qh)
    %qt = Concat(%qm, %qa) {axis = 3}
    %qr = Mul(%qt, %s)
    %qq = Add(%ql, %qr)
    %kn = RMSNormalization(%k) {axis = 3, epsilon = 1e-6}
    %o = Attention(%qq, %kn, %v) {scale = 0.5, layout = "bshd"}
    %of = Reshape(%o) {shape = dims[b, t, 8]}
    %p = MatMul(%of, %wo)
    %y = Add(%p, %x)
    return %y
  })";
  for (const std::string mesh : {"", "cp=2", "tp=2", "tp=2,cp=2"}) {
    SCOPED_TRACE(mesh);
    const CompiledModel model = compile_text(kText, options(mesh));
    EXPECT_EQ(count_nodes(*model.main, "Fused"), 1) << print(*model.main);
    const auto whole = parse_model(kText);
    const NamedTensors inputs = {{"x", random_f32({2, 6, 8}, 1)},
                                 {"c", random_f32({6, 1, 4}, 2)},
                                 {"s", random_f32({6, 1, 4}, 3)}};
    SpmdInterpreter interpreter(&ops_);
    const auto right = interpreter.run_whole(*whole, inputs, bind_sizes(model.inputs, inputs));
    const auto ranks = interpreter.run(model, inputs);
    ASSERT_TRUE(right.ok()) << right.status().to_string();
    ASSERT_TRUE(ranks.ok()) << ranks.status().to_string();
    for (const auto& outputs : *ranks) EXPECT_LE(relative_error(outputs[0], (*right)[0]), 1e-5);
  }
}

}  // namespace
}  // namespace tutti
