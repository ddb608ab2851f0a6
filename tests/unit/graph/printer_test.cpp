#include "graph/printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/half.h"
#include "graph/append_node.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

Result<std::vector<TensorType>> same_as_input(const Node& node, int num_outputs) {
  return std::vector<TensorType>(static_cast<std::size_t>(num_outputs), node.input(0)->type());
}

Result<std::vector<TensorType>> shape_attribute(const Node& node, int) {
  return std::vector<TensorType>{{node.input(0)->dtype(), node.attr_dims("shape")}};
}

// One operator a thing to print; what they compute does not matter here.
OpRegistry toy_ops() {
  OpRegistry ops;
  OpDef def;
  def.type = "Add";
  def.min_inputs = 2;
  def.max_inputs = 2;
  def.infer = same_as_input;
  ops.add(def);

  def = OpDef();
  def.type = "Reshape";
  def.domain = "ai.tutti";
  def.attributes = {{"shape", AttributeKind::kDims, true}};
  def.infer = shape_attribute;
  ops.add(def);

  def = OpDef();
  def.type = "Split";
  def.num_outputs = kVariadic;
  def.infer = same_as_input;
  ops.add(def);

  def = OpDef();
  def.type = "Join";
  def.max_inputs = kVariadic;
  def.infer = same_as_input;
  ops.add(def);

  def = OpDef();
  def.type = "Everything";
  def.max_inputs = 3;
  def.attributes = {{"i", AttributeKind::kInt, false},     {"f", AttributeKind::kFloat, false},
                    {"s", AttributeKind::kString, false},  {"is", AttributeKind::kInts, false},
                    {"fs", AttributeKind::kFloats, false}, {"ss", AttributeKind::kStrings, false},
                    {"d", AttributeKind::kDims, false},    {"t", AttributeKind::kTensor, false},
                    {"g", AttributeKind::kGraph, false}};
  def.infer = same_as_input;
  ops.add(def);
  return ops;
}

class PrinterTest : public ::testing::Test {
 protected:
  std::unique_ptr<Graph> parse(std::string_view text) {
    auto graph = parse_graph(text, ops_);
    EXPECT_TRUE(graph.ok()) << graph.status().to_string();
    return graph.ok() ? *std::move(graph) : std::make_unique<Graph>();
  }

  std::string error_of(std::string_view text) {
    const auto graph = parse_graph(text, ops_);
    EXPECT_FALSE(graph.ok());
    return graph.status().message();
  }

  OpRegistry ops_ = toy_ops();
};

TEST_F(PrinterTest, PrintsTheDocumentedForm) {
  Graph graph;
  graph.name = "name";
  Value* x = graph.add_input("x", {DType::kFloat32, {Dim::symbol("batch"), 16}});
  Value* two = graph.add_constant("two", Tensor::scalar(DType::kFloat32, 2));
  Node* sum = *append_node(&graph, *ops_.find("Add"), "", {x, two}, {}, {"sum"});
  Node* out = *append_node(&graph, *ops_.find("Reshape"), "blocks.0/out", {sum->output()},
                           {{"shape", Shape{Dim::symbol("batch"), 4, 4}}}, {"out"});
  graph.add_output(out->output());
  graph.output_names = {"result"};

  EXPECT_EQ(print(graph),
            "graph @name (%x: f32[batch, 16]) {\n"
            "  %two = constant f32[] [2.0]\n"
            "  %sum: f32[batch, 16] = Add(%x, %two)\n"
            "  %out: f32[batch, 4, 4] = Reshape(%sum) {shape = dims[batch, 4, 4]} @blocks.0/out\n"
            "  return %out as result\n"
            "}\n");
}

TEST_F(PrinterTest, ParsingWhatWasPrintedGivesTheSameText) {
  const std::string text =
      "graph @\"a b\" (%x: f32[batch, part(t,4,rank.cp), 2*h*w+1], %\"onnx::Add_0\": i64[]) {\n"
      "  %c = constant f64[2, 2] [1.0, -0.5, inf, 1e-300]\n"
      "  %none = constant i32[0] []\n"
      "  %flags = constant bool[2] [true, false]\n"
      "  %big = constant f16[1000] data\n"
      "  %v0: f32[batch, part(t,4,rank.cp), 2*h*w+1] = Everything(%x, _, %c) "
      "{d = dims[], f = 0.1, fs = [], g = graph (%a: f32[]) {\n"
      "    %b: f32[] = Add(%a, %a)\n"
      "    return %b\n"
      "  }, i = -3, is = [1, 2], s = \"q\\\"\\\\\\n\\x01\", ss = [\"a\", \"\"], "
      "t = u8[3] [0, 255, 7]} @\"n 1\"\n"
      "  %v2: i64[], %v1: i64[] = Split(%\"onnx::Add_0\")\n"
      "  return %v0, %v1 as y, %c\n"
      "}\n";
  const auto graph = parse(text);
  EXPECT_EQ(print(*graph), text);
  EXPECT_EQ(graph->output_names, (std::vector<std::string>{"v0", "y", "c"}));
  EXPECT_TRUE(graph->verify().ok());
}

TEST_F(PrinterTest, NumbersOfEveryFloatTypeSurvive) {
  const float values[] = {0.1F, -0.0F, 3.4e38F, std::numeric_limits<float>::denorm_min()};
  const Half halves[] = {Half(0.1F), Half(65504.0F)};
  const BFloat16 brains[] = {BFloat16(0.1F), BFloat16(1e38F)};
  Graph graph;
  for (Tensor tensor : {Tensor::of<float>({4}, values), Tensor::of<Half>({2}, halves),
                        Tensor::of<BFloat16>({2}, brains)}) {
    graph.add_output(graph.add_constant("", std::move(tensor)));
  }
  const auto read = parse(print(graph));
  ASSERT_EQ(read->constants().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& before = graph.constants()[i]->constant();
    const Tensor& after = read->constants()[i]->constant();
    ASSERT_EQ(before.byte_size(), after.byte_size());
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.byte_size()), 0);
  }
}

TEST_F(PrinterTest, TypesMayBeLeftOutAndCommentsAreSpace) {
  const auto graph = parse(R"(
    graph (%x: f32[2, 3]) {   // a comment
      %y = Add(%x, %x)        // another
      return %y
    })");
  EXPECT_EQ(graph->outputs()[0]->type().to_string(), "f32[2, 3]");
}

TEST_F(PrinterTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of("graph (%x: f32[2]) {\n  %y = Add(%x, %z)\n  return %y\n}"),
            "line 2, column 18: 'z' is not made before");
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y = Nope(%x)\n"),
              HasSubstr("line 2, column 12: there is no core operator 'Nope'"));
}

TEST_F(PrinterTest, WrongTextIsAnErrorThatSaysWhatWasExpected) {
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y: f32[3] = Add(%x, %x)\n  return %y\n}"),
              HasSubstr("'y' is written as f32[3], inferred is f32[2]"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y = Add(%x)\n"), HasSubstr("has 1 inputs"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y = Join(%x, _, %x)\n"),
              HasSubstr("input 1 is missing"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %x = Add(%x, %x)\n"),
              HasSubstr("'x' has the name of another value"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y = Reshape(%x)\n"),
              HasSubstr("attribute 'shape' is missing"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  %y = Add(%x, %x) {k = 1}\n"),
              HasSubstr("attribute 'k' is unknown to Add"));
  EXPECT_THAT(error_of("graph () {\n  %c = constant i8[2] [1, 300]\n"), HasSubstr("expected i8"));
  EXPECT_THAT(error_of("graph () {\n  %c = constant i8[2] [1]\n"),
              HasSubstr("expected more elements"));
  EXPECT_THAT(error_of("graph () {\n  %c = constant f32[1099511627776] data\n"),
              HasSubstr("expected a smaller constant"));
  EXPECT_THAT(error_of("graph (%x: f32[2]) {\n  return %x\n} rest"), HasSubstr("expected the end"));
}

TEST_F(PrinterTest, CutTextIsAnErrorAtEveryLength) {
  const std::string text =
      "graph @g (%x: f32[n, 2]) {\n  %c = constant f32[2] [1.0, 2.0]\n"
      "  %y: f32[n, 2] = Everything(%x, %c) {s = \"a\", d = dims[n], is = [1, 2]} @n\n"
      "  return %y as z\n}\n";
  ASSERT_TRUE(parse_graph(text, ops_).ok());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_graph(text.substr(0, length), ops_).ok()) << text.substr(0, length);
  }
}

}  // namespace
}  // namespace tutti
