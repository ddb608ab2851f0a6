// The verifier against layouts that were broken by hand.
#include <gmock/gmock.h>

#include "compiler_fixture.h"
#include "toy_transformer.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VerifyLayoutTest : public CompilerTest {
 protected:
  void SetUp() override {
    whole_ = parse_model(ToyTransformer().text());
    options_ = options("cp=4");
    spmd_ = to_spmd(*whole_, options_);
  }

  std::string error() {
    const Status status = verify_layouts(spmd_, options_.mesh);
    EXPECT_FALSE(status.ok());
    return status.message();
  }

  std::unique_ptr<Graph> whole_;
  CompileOptions options_;
  Partitioned spmd_;
};

TEST_F(VerifyLayoutTest, AWrongLayoutOfAValueIsFound) {
  spmd_.layouts.at("l0.n1").layout = Layout();
  EXPECT_THAT(error(), AllOf(HasSubstr("LayerNormalization"), HasSubstr("l0.n1")));
}

TEST_F(VerifyLayoutTest, AnOutputInPiecesIsFound) {
  Graph& graph = *spmd_.graph;
  const Node* gather = find_node(graph, "AllGather");
  graph.set_output(0, gather->input(0));
  EXPECT_THAT(error(), AllOf(HasSubstr("output"), HasSubstr("expected whole on every rank")));
}

TEST_F(VerifyLayoutTest, AnExchangeThatIsLeftOutIsFound) {
  // Attention reads its queries by tokens and its keys by heads.
  for (const auto& node : spmd_.graph->nodes()) {
    if (node->type() != "Attention") continue;
    const Node* exchange = node->input(0)->producer();
    ASSERT_EQ(exchange->type(), "AllToAll");
    node->set_input(0, exchange->input(0));
    break;
  }
  EXPECT_THAT(error(), AllOf(HasSubstr("Attention"), HasSubstr("do not follow rule")));
}

TEST_F(VerifyLayoutTest, APieceOfTheWrongKeysIsFound) {
  for (const auto& node : spmd_.graph->nodes()) {
    if (node->type() != "Attention") continue;
    ValueLayout& keys = spmd_.layouts.at(node->input(1)->name());
    keys.layout.splits[0].replicas = 2;  // another share than the queries'
    break;
  }
  EXPECT_FALSE(verify_layouts(spmd_, options_.mesh).ok());
}

TEST_F(VerifyLayoutTest, AnExchangeOfOtherDimensionsThanItSaysIsFound) {
  for (const auto& node : spmd_.graph->nodes()) {
    if (node->type() != "AllGather") continue;
    node->set_attribute("dim", std::int64_t{0});
  }
  EXPECT_THAT(error(), HasSubstr("AllGather"));
}

TEST_F(VerifyLayoutTest, SegmentsThatAreNotThePartsOfAConcatenationAreFound) {
  CompileOptions cp = options("cp=2");
  cp.seeds = {{"a", 0, "cp"}, {"b", 0, "cp"}};
  const auto graph = parse_model(R"(graph @g (%x: f32[m, 4], %z: f32[n, 4]) {
    %a = Exp(%x)
    %b = Exp(%z)
    %j = Concat(%a, %b) {axis = 0}
    %y = Abs(%j)
    return %y
  })");
  Partitioned spmd = to_spmd(*graph, cp);
  Split& joined = spmd.layouts.at("j").layout.splits.at(0);
  ASSERT_EQ(joined.segments, (std::vector<Dim>{Dim::symbol("m"), Dim::symbol("n")}));
  std::swap(joined.segments[0], joined.segments[1]);  // as long, but other rows
  const Status status = verify_layouts(spmd, cp.mesh);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("Concat"), HasSubstr("do not follow rule")));
}

TEST_F(VerifyLayoutTest, APartialSumThatIsReadIsFound) {
  CompileOptions tp = options("tp=2");
  tp.seeds = {{"w1", 1, "tp"}};
  const auto graph = parse_model(R"(graph @mlp (%x: f32[b, 16]) {
    %w1 = constant f32[16, 64] data
    %w2 = constant f32[64, 16] data
    %h = MatMul(%x, %w1)
    %y = MatMul(%h, %w2)
    %z = Exp(%y)
    return %z
  })");
  Partitioned spmd = to_spmd(*graph, tp);
  for (const auto& node : spmd.graph->nodes()) {
    if (node->type() == "Exp") node->set_input(0, node->input(0)->producer()->input(0));
  }
  const Status status = verify_layouts(spmd, tp.mesh);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("Exp"), HasSubstr("partial sum")));
}

class VerifyWindowsTest : public CompilerTest {
 protected:
  void SetUp() override {
    whole_ = parse_model(R"(graph @g (%x: f32[1, 4, h, 8]) {
      %w = constant f32[4, 4, 3, 3] data
      %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}
      %p = Pad(%a) {axes = [2], before = dims[2], after = dims[0], mode = "edge"}
      %b = Conv(%p, %w) {pads = [0, 1, 0, 1]}
      %c = Slice(%b) {axes = [2], starts = dims[1], ends = dims[h], steps = [1]}
      return %c
    })");
    options_ = options("sp=3");
    spmd_ = to_spmd(*whole_, options_);
    ASSERT_EQ(producer("c")->type(), "Halo");
  }

  Node* producer(std::string_view value) const {
    return spmd_.graph->find_value(value)->producer();
  }
  std::string error() const {
    const Status status = verify_layouts(spmd_, options_.mesh);
    EXPECT_FALSE(status.ok());
    return status.message();
  }

  std::unique_ptr<Graph> whole_;
  CompileOptions options_;
  Partitioned spmd_;
};

TEST_F(VerifyWindowsTest, AConvolutionThatReadsItsBarePieceIsFound) {
  const ValueLayout plain = spmd_.layouts.at("a");
  spmd_.layouts.at(producer("b")->input(0)->name()).layout = plain.layout;
  EXPECT_FALSE(verify_layouts(spmd_, options_.mesh).ok());
}

TEST_F(VerifyWindowsTest, WindowsOfAnotherGeometryAreFound) {
  for (const auto& [name, value] : {std::pair{"extent", 5}, {"stride", 2}}) {
    SetUp();
    Node* conv = producer("b");
    ASSERT_EQ(conv->input(0)->producer()->type(), "Halo");
    conv->input(0)->producer()->set_attribute(name, std::int64_t{value});
    EXPECT_THAT(error(), HasSubstr("Halo")) << name;
  }
  SetUp();
  producer("b")->input(0)->producer()->set_attribute("offset", Shape{Dim(0)});
  EXPECT_THAT(error(), HasSubstr("Halo"));
}

TEST_F(VerifyWindowsTest, AnotherEdgeIsFound) {
  producer("b")->input(0)->producer()->set_attribute("edge", std::string("zero"));
  EXPECT_THAT(error(), HasSubstr("is not the work of"));
}

TEST_F(VerifyWindowsTest, RowsOfAnotherSliceAreFound) {
  Node* slice = producer("c");
  ASSERT_EQ(slice->type(), "Halo");
  slice->set_attribute("offset", Shape{Dim(0)});
  EXPECT_THAT(error(), HasSubstr("is not the work of"));
}

TEST_F(VerifyWindowsTest, PiecesInOtherUnitsThanTheHaloSaysAreFound) {
  for (const auto& node : spmd_.graph->nodes()) {
    if (node->type() == "Halo") node->set_attribute("from_units", Shape{Dim(1)});
  }
  EXPECT_THAT(error(), HasSubstr("Halo"));
}

}  // namespace
}  // namespace tutti
