// Shapes, symbols and bindings of graph inputs.
#include "model_fixture.h"

namespace tutti::test {
namespace {

using onnx::TensorProto;
using ::testing::HasSubstr;

class InputsTest : public ModelFixture {
 protected:
  std::string type_of(const std::string& name) {
    return read_ok()->find_value(name)->type().to_string();
  }
  static Tensor floats(Dims dims) {
    const std::vector<float> values(static_cast<std::size_t>(element_count(dims)), 1.0F);
    return Tensor::of<float>(dims, values);
  }
};

TEST_F(InputsTest, SymbolicSizesAreFormulasAndUnnamedOnesGetASymbol) {
  add_input("x", {"2", "2*h + 1", "s0 // 2", "?"});
  add_input("a/b:0", {"?", "not a formula"});
  add_output("x");
  add_output("a/b:0");
  EXPECT_EQ(type_of("x"), "f32[2, 2*h+1, floordiv(s0,2), x.3]");
  EXPECT_EQ(type_of("a/b:0"), "f32[a_b_0.0, not_a_formula]");
}

TEST_F(InputsTest, ElementTypesAreThoseOfTheModel) {
  add_input("h", {"1"}, TensorProto::FLOAT16);
  add_input("b", {"1"}, TensorProto::BFLOAT16);
  add_input("t", {}, TensorProto::BOOL);
  add_output("h");
  EXPECT_EQ(type_of("h"), "f16[1]");
  EXPECT_EQ(type_of("b"), "bf16[1]");
  EXPECT_EQ(type_of("t"), "bool[]");
}

TEST_F(InputsTest, TypesThatAreNotSupportedAreErrorsThatNameInputAndType) {
  add_input("x", {"1"}, TensorProto::FLOAT8E4M3FN);
  add_output("x");
  EXPECT_EQ(error(), "input 'x': element type FLOAT8E4M3FN is not supported");
  graph().mutable_input(0)->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(error(), "input 'x': type is sequence; only dense tensors are supported");
}

TEST_F(InputsTest, SizesOutOfRangeAreErrors) {
  add_input("x", {"-1"});
  add_output("x");
  EXPECT_THAT(error(), HasSubstr("input 'x': dimension 0 is -1"));
  graph().clear_input();
  add_input("x", {"1152921504606846978"});
  EXPECT_THAT(error(), HasSubstr("dimension 0 is 1152921504606846978"));
}

TEST_F(InputsTest, BoundDimensionsBecomeConstantEverywhere) {
  add_input("x", {"batch", "2*h"});
  add_output("x");
  options_.bound_dims = {{"batch", 2}, {"h", 5}};
  EXPECT_EQ(type_of("x"), "f32[2, 10]");
  options_.bound_dims = {{"btach", 2}};
  EXPECT_EQ(error(), "no input has a dimension 'btach'; the symbolic ones are batch, h");
  options_.bound_dims = {{"h", -2}};
  EXPECT_THAT(error(), HasSubstr("dimension 1 is -4"));
}

TEST_F(InputsTest, GivenShapesReplaceDeclaredOnes) {
  add_input("x", {"1"});
  graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  add_output("x");
  EXPECT_THAT(error(), HasSubstr("input 'x': has no shape"));
  options_.input_shapes["x"] = "batch, max(a,b), 3";
  EXPECT_EQ(type_of("x"), "f32[batch, max(a,b), 3]");
  options_.input_shapes["x"] = "[2, +]";
  EXPECT_THAT(error(), HasSubstr("input 'x': size '+'"));
  options_.input_shapes = {{"z", "1"}};
  EXPECT_EQ(error(), "the model has no input 'z'; its inputs are x");
}

TEST_F(InputsTest, BoundInputsBecomeConstantsAndBindTheirSymbols) {
  add_input("x", {"batch", "4"});
  add_input("y", {"batch"});
  add_output("x");
  add_output("y");
  options_.bound_inputs["x"] = floats({3, 4});
  const auto graph = read_ok();
  EXPECT_EQ(graph->inputs().size(), 1U);
  EXPECT_EQ(graph->inputs()[0]->type().to_string(), "f32[3]");
  EXPECT_TRUE(graph->find_value("x")->is_constant());
}

TEST_F(InputsTest, BoundContentThatDoesNotFitIsAnError) {
  add_input("x", {"batch", "4"});
  add_input("y", {"batch"});
  add_output("x");
  options_.bound_inputs["x"] = floats({3, 5});
  EXPECT_THAT(error(), HasSubstr("input 'x': bound content has size 5 at dimension 1"));
  options_.bound_inputs["x"] = floats({3});
  EXPECT_THAT(error(), HasSubstr("bound content is f32[3], the model declares f32[batch, 4]"));
  options_.bound_inputs["x"] = floats({3, 4});
  options_.bound_inputs["y"] = floats({2});
  EXPECT_THAT(error(), HasSubstr("input 'y': bound content has size 2 at dimension 0, but 'batch' "
                                 "is 3"));
  options_.bound_inputs = {{"z", floats({1})}};
  EXPECT_THAT(error(), HasSubstr("the model has no input 'z'"));
}

TEST_F(InputsTest, InputsThatAreInitializersAreConstantsThatABindingReplaces) {
  add_input("x", {"1"});
  add_input("w", {"1"});
  add_initializer("w", TensorProto::FLOAT, {1})->add_float_data(5);
  add_output("x");
  add_output("w");
  auto graph = read_ok();
  EXPECT_EQ(graph->inputs().size(), 1U);
  EXPECT_EQ(graph->outputs()[1]->constant().to_doubles(), std::vector<double>{5});
  options_.bound_inputs["w"] = floats({1});
  graph = read_ok();
  EXPECT_EQ(graph->outputs()[1]->constant().to_doubles(), std::vector<double>{1});
}

}  // namespace
}  // namespace tutti::test
