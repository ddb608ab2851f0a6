#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tutti {
namespace {

// Toy operators: this folder knows no real ones.
Result<std::vector<TensorType>> same_type(const Node& node, int num_outputs) {
  for (const Value* input : node.inputs()) {
    if (input->shape() != node.input(0)->shape()) {
      return invalid_argument("input shapes ", node.input(0)->shape(), " and ", input->shape(),
                              " differ");
    }
  }
  return std::vector<TensorType>(static_cast<std::size_t>(num_outputs), node.input(0)->type());
}

std::optional<std::vector<Dim>> sum_symbolic(const Node& node) {
  if (!node.input(0)->symbolic() || !node.input(1)->symbolic()) return std::nullopt;
  std::vector<Dim> out;
  for (std::size_t i = 0; i < node.input(0)->symbolic()->size(); ++i) {
    out.push_back((*node.input(0)->symbolic())[i] + (*node.input(1)->symbolic())[i]);
  }
  return out;
}

class GraphTest : public testing::Test {
 protected:
  GraphTest() {
    registry_.add({.type = "Plus",
                   .min_inputs = 2,
                   .max_inputs = 2,
                   .attributes = {{"k", AttributeKind::kInt}},
                   .infer = same_type,
                   .symbolic = sum_symbolic});
    registry_.add({.type = "Copy", .infer = same_type});
  }
  OpRegistry registry_;
  Graph graph_;
  GraphBuilder b_{&graph_, &registry_};
};

const TensorType kRow{DType::kFloat32, {Dim::symbol("t"), 4}};

TEST_F(GraphTest, RemovesWhatNoOutputNeeds) {
  Value* x = graph_.add_input("x", kRow);
  Value* used = b_.op("Copy", {x});
  b_.op("Copy", {b_.op("Plus", {used, used})});
  b_.constant(Tensor::scalar(DType::kFloat32, 1));
  graph_.add_output(used);
  EXPECT_EQ(graph_.remove_dead(), 2);
  EXPECT_EQ(graph_.nodes().size(), 1U);
  EXPECT_TRUE(graph_.constants().empty());
  EXPECT_TRUE(used->users().empty());
  EXPECT_TRUE(graph_.verify().ok());
}

TEST_F(GraphTest, ReplacingUsesMovesOperandsAndOutputs) {
  Value* x = graph_.add_input("x", kRow);
  Value* a = b_.op("Copy", {x});
  Value* y = b_.op("Plus", {a, a});
  graph_.add_output(a);
  graph_.add_output(y);
  graph_.replace_uses(a, x);
  EXPECT_EQ(y->producer()->inputs(), (std::vector<Value*>{x, x}));
  EXPECT_EQ(graph_.outputs()[0], x);
  EXPECT_EQ(x->users().size(), 3U);
  graph_.erase(a->producer());
  EXPECT_EQ(x->users().size(), 2U);
  EXPECT_TRUE(graph_.verify().ok());
}

TEST_F(GraphTest, TheFirstErrorSticksAndNamesNodeAndCause) {
  Value* x = graph_.add_input("x", kRow);
  Value* z = graph_.add_input("z", {DType::kFloat32, {3}});
  b_.set_name("block.1/add");
  Value* bad = b_.op("Plus", {x, z});
  EXPECT_EQ(bad, nullptr);
  EXPECT_EQ(b_.op("Copy", {bad}), nullptr);
  EXPECT_EQ(b_.status().message(), "node 'block.1/add' (Plus): input shapes [t, 4] and [3] differ");
  EXPECT_TRUE(graph_.nodes().empty());
}

TEST_F(GraphTest, UnknownAndMistypedAttributesAreRefused) {
  Value* x = graph_.add_input("x", kRow);
  b_.op("Plus", {x, x}, {{"q", std::int64_t{1}}});
  EXPECT_EQ(b_.take_status().message(), "node '' (Plus): attribute 'q' is unknown to Plus");
  b_.op("Plus", {x, x}, {{"k", std::string("1")}});
  EXPECT_EQ(b_.take_status().message(), "node '' (Plus): attribute 'k': expected an integer");
  b_.op("Plus", {x});
  EXPECT_EQ(b_.take_status().message(), "node '' (Plus): has 1 inputs, expected 2 to 2");
}

TEST_F(GraphTest, SymbolicSizesThatBecomeConstantFoldWithoutAKernel) {
  const std::int64_t a[] = {2, 3};
  Value* sum = b_.op("Plus", {b_.constant(Tensor::ints(a)), b_.constant(Tensor::ints(a))});
  ASSERT_TRUE(sum->is_constant());
  EXPECT_EQ(sum->constant().to_ints(), (std::vector<std::int64_t>{4, 6}));
  EXPECT_TRUE(graph_.nodes().empty());
}

TEST_F(GraphTest, CloneIsEqualAndApart) {
  Value* x = graph_.add_input("x", kRow);
  Value* y = b_.op("Plus", {x, b_.op("Copy", {x})}, {{"k", std::int64_t{3}}});
  graph_.add_output(y);
  const auto copy = graph_.clone();
  EXPECT_TRUE(copy->verify().ok());
  ASSERT_EQ(copy->nodes().size(), 2U);
  EXPECT_EQ(copy->outputs()[0]->producer()->attr_int("k"), 3);
  EXPECT_EQ(copy->find_value("x")->users().size(), 2U);
  EXPECT_NE(copy->find_value("x"), x);
  copy->set_output(0, copy->find_value("x"));
  EXPECT_EQ(copy->remove_dead(), 2);
  EXPECT_EQ(graph_.nodes().size(), 2U);
}

TEST_F(GraphTest, VerifyFindsAUseBeforeItsDefinition) {
  Value* x = graph_.add_input("x", kRow);
  Value* a = b_.op("Copy", {x});
  Value* c = b_.op("Copy", {a});
  graph_.add_output(c);
  graph_.move_before(c->producer(), a->producer());
  EXPECT_FALSE(graph_.verify().ok());
}

}  // namespace
}  // namespace tutti
