// Constants, branches and functions: what the importer takes apart itself.
#include "model_fixture.h"

namespace tutti::test {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;
using ::testing::HasSubstr;

class ControlFlowTest : public ModelFixture {
 protected:
  onnx::FunctionProto* add_function(const std::string& name, const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& outputs) {
    onnx::FunctionProto* function = model_.add_functions();
    function->set_domain("fn");
    function->set_name(name);
    for (const std::string& input : inputs) function->add_input(input);
    for (const std::string& output : outputs) function->add_output(output);
    onnx::OperatorSetIdProto* import = function->add_opset_import();
    import->set_domain("");
    import->set_version(18);
    return function;
  }
  template <class Owner>
  onnx::NodeProto* call(Owner* owner, const std::string& name,
                        const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& node = "") {
    onnx::NodeProto* proto = add_node(owner, name, inputs, outputs, node);
    proto->set_domain("fn");
    return proto;
  }
  // An If over `condition` whose branches add and scale the outer value x.
  onnx::NodeProto* add_if(const std::string& condition) {
    onnx::NodeProto* node = add_node("If", {condition}, {"y"}, "choice");
    onnx::GraphProto* then_graph =
        add_attribute(node, "then_branch", AttributeProto::GRAPH)->mutable_g();
    add_node(then_graph, "Add", {"x", "x"}, {"r"});
    then_graph->add_output()->set_name("r");
    onnx::GraphProto* else_graph =
        add_attribute(node, "else_branch", AttributeProto::GRAPH)->mutable_g();
    add_node(else_graph, "LeakyRelu", {"x"}, {"r"});
    else_graph->add_output()->set_name("r");
    return node;
  }
  std::string types() {
    const auto graph = read_ok();
    std::string text;
    for (const auto& node : graph->nodes()) text += node->type() + " ";
    return text;
  }
};

TEST_F(ControlFlowTest, ConstantsOfEveryForm) {
  onnx::NodeProto* node = add_node("Constant", {}, {"c"});
  AttributeProto* value = add_attribute(node, "value_int", AttributeProto::INT);
  add_output("c");
  value->set_i(7);
  EXPECT_EQ(read_constant().desc(), (TensorDesc{DType::kInt64, {}}));
  EXPECT_EQ(read_constant().to_ints(), std::vector<std::int64_t>{7});

  value->set_name("value_ints");
  value->set_type(AttributeProto::INTS);
  value->add_ints(1);
  value->add_ints(2);
  EXPECT_EQ(read_constant().to_ints(), (std::vector<std::int64_t>{1, 2}));

  value->set_name("value_float");
  value->set_type(AttributeProto::FLOAT);
  value->set_f(0.5F);
  EXPECT_EQ(read_constant().desc(), (TensorDesc{DType::kFloat32, {}}));
  EXPECT_EQ(read_constant().to_doubles(), std::vector<double>{0.5});

  value->set_name("value_floats");
  value->set_type(AttributeProto::FLOATS);
  value->add_floats(1.5F);
  EXPECT_EQ(read_constant().to_doubles(), std::vector<double>{1.5});

  value->set_name("value");
  value->set_type(AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(TensorProto::BOOL);
  value->mutable_t()->set_raw_data("\x01");
  EXPECT_EQ(read_constant().desc(), (TensorDesc{DType::kBool, {}}));

  value->set_name("value_string");
  value->set_type(AttributeProto::STRING);
  EXPECT_THAT(error(), HasSubstr("constant given as 'value_string' of kind STRING"));
  value->set_name("sparse_value");
  value->set_type(AttributeProto::SPARSE_TENSOR);
  EXPECT_THAT(error(), HasSubstr("constant given as 'sparse_value'"));
  node->clear_attribute();
  EXPECT_THAT(error(), HasSubstr("has 0 attributes, expected one value"));
}

TEST_F(ControlFlowTest, AConstantConditionTakesOneBranch) {
  add_input("x", {"2"});
  TensorProto* condition = add_initializer("c", TensorProto::BOOL, {});
  condition->add_int32_data(1);
  add_if("c");
  add_output("y");
  EXPECT_EQ(types(), "Add ");
  condition->set_int32_data(0, 0);
  EXPECT_EQ(types(), "Scale ");
}

TEST_F(ControlFlowTest, ConditionsThatAreNotKnownAreErrorsThatSayWhatHelps) {
  add_input("x", {"2"});
  add_input("c", {}, TensorProto::BOOL);
  add_if("c");
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("node 'choice' (If, ai.onnx opset 18): condition 'c'"));
  EXPECT_THAT(error(), HasSubstr("--bind"));
  const bool yes = true;
  options_.bound_inputs["c"] = Tensor::of<bool>({}, std::span(&yes, 1));
  EXPECT_EQ(types(), "Add ");
}

TEST_F(ControlFlowTest, BranchesNestAndSeeTheValuesAroundThem) {
  add_input("x", {"2"});
  add_initializer("c", TensorProto::BOOL, {})->add_int32_data(1);
  onnx::NodeProto* outer = add_node("If", {"c"}, {"y"});
  onnx::GraphProto* branch =
      add_attribute(outer, "then_branch", AttributeProto::GRAPH)->mutable_g();
  add_node(branch, "LeakyRelu", {"x"}, {"z"});
  onnx::NodeProto* inner = add_node(branch, "If", {"c"}, {"w"});
  onnx::GraphProto* nested =
      add_attribute(inner, "then_branch", AttributeProto::GRAPH)->mutable_g();
  add_node(nested, "Add", {"z", "x"}, {"v"});
  nested->add_output()->set_name("v");
  branch->add_output()->set_name("w");
  add_output("y");
  EXPECT_EQ(types(), "Scale Add ");
  EXPECT_THAT((add_node("Add", {"z", "x"}, {"bad"}), error()), HasSubstr("input 'z' is no input"));
}

TEST_F(ControlFlowTest, FunctionsAreInlinedUnderTheCallersName) {
  onnx::FunctionProto* twice = add_function("Twice", {"a", "b"}, {"r"});
  add_node(twice, "Add", {"a", "b"}, {"s"}, "inner");
  add_node(twice, "Add", {"s", "b"}, {"r"});
  add_input("x", {"2"});
  call(&graph(), "Twice", {"x", "x"}, {"t"}, "first");
  call(&graph(), "Twice", {"t", "x"}, {"y"}, "second");
  add_output("y");
  EXPECT_EQ(print(*read_ok()),
            "graph @g (%x: f32[2]) {\n"
            "  %first/s: f32[2] = Add(%x, %x) @first/inner\n"
            "  %t: f32[2] = Add(%first/s, %x) @first/r\n"
            "  %second/s: f32[2] = Add(%t, %x) @second/inner\n"
            "  %y: f32[2] = Add(%second/s, %x) @second/r\n"
            "  return %y\n"
            "}\n");
}

TEST_F(ControlFlowTest, FunctionsCallFunctionsAndHandOnAttributes) {
  onnx::FunctionProto* inner = add_function("Inner", {"a"}, {"r"});
  inner->add_attribute("slope");
  AttributeProto* reference =
      add_attribute(add_node(inner, "LeakyRelu", {"a"}, {"r"}), "alpha", AttributeProto::FLOAT);
  reference->set_ref_attr_name("slope");
  onnx::FunctionProto* outer = add_function("Outer", {"a"}, {"r"});
  outer->add_attribute("steepness");
  add_attribute(call(outer, "Inner", {"a"}, {"r"}), "slope", AttributeProto::FLOAT)
      ->set_ref_attr_name("steepness");
  add_input("x", {"2"});
  onnx::NodeProto* node = call(&graph(), "Outer", {"x"}, {"y"});
  AttributeProto* given = add_attribute(node, "steepness", AttributeProto::FLOAT);
  given->set_f(0.25F);
  add_output("y");
  EXPECT_EQ(read_ok()->nodes().front()->attr_float("alpha"), 0.25);

  node->clear_attribute();  // left out everywhere: the operator's own default
  EXPECT_EQ(read_ok()->nodes().front()->attr_float("alpha"), 0.01);

  AttributeProto* standard = outer->add_attribute_proto();
  standard->set_name("steepness");
  standard->set_type(AttributeProto::FLOAT);
  standard->set_f(4);
  EXPECT_EQ(read_ok()->nodes().front()->attr_float("alpha"), 4);

  standard->set_type(AttributeProto::INT);
  EXPECT_THAT(error(), HasSubstr("is declared as FLOAT, the function was given INT"));
  add_attribute(node, "other", AttributeProto::FLOAT);
  EXPECT_THAT(error(), HasSubstr("function 'Outer' has no attribute 'other'"));
}

TEST_F(ControlFlowTest, ConstantsInFunctionsMayComeFromAttributes) {
  onnx::FunctionProto* function = add_function("F", {}, {"r"});
  function->add_attribute("v");
  add_attribute(add_node(function, "Constant", {}, {"r"}), "value_int", AttributeProto::INT)
      ->set_ref_attr_name("v");
  add_attribute(call(&graph(), "F", {}, {"y"}), "v", AttributeProto::INT)->set_i(9);
  add_output("y");
  EXPECT_EQ(read_constant().to_ints(), std::vector<std::int64_t>{9});
}

TEST_F(ControlFlowTest, InputsThatTheCallerLeavesOutAreAbsentInside) {
  onnx::FunctionProto* function = add_function("F", {"a", "b", "c"}, {"r"});
  add_node(function, "Add", {"a", "b", "c"}, {"r"});
  add_input("x", {"2"});
  call(&graph(), "F", {"x", "", "x"}, {"y"});
  add_output("y");
  EXPECT_EQ(read_ok()->nodes().front()->input(1), nullptr);
}

TEST_F(ControlFlowTest, FunctionsDoNotSeeTheCallersValues) {
  onnx::FunctionProto* function = add_function("F", {"a"}, {"r"});
  add_node(function, "Add", {"a", "x"}, {"r"}, "n");
  add_input("x", {"2"});
  call(&graph(), "F", {"x"}, {"y"}, "call");
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("node 'call/n' (Add, ai.onnx opset 18): input 'x' is no input"));
}

TEST_F(ControlFlowTest, RecursionAndExplosionsAreErrors) {
  onnx::FunctionProto* function = add_function("F", {"a"}, {"r"});
  call(function, "F", {"a"}, {"r"});
  add_input("x", {"2"});
  call(&graph(), "F", {"x"}, {"y"});
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("function 'F' calls itself"));

  model_.clear_functions();
  for (int i = 0; i < 40; ++i) {  // 2^40 nodes when inlined
    onnx::FunctionProto* level = add_function(i == 0 ? "F" : "F" + std::to_string(i), {"a"}, {"r"});
    call(level, "F" + std::to_string(i + 1), {"a"}, {"b"});
    call(level, "F" + std::to_string(i + 1), {"b"}, {"r"});
  }
  onnx::FunctionProto* last = add_function("F40", {"a"}, {"r"});
  add_node(last, "Add", {"a", "a"}, {"r"});
  options_.limits.max_nodes = 1000;
  EXPECT_THAT(error(), HasSubstr("more than 1000 nodes"));
  options_.limits.max_call_depth = 20;
  EXPECT_THAT(error(), HasSubstr("nested more than 20 deep"));
}

TEST_F(ControlFlowTest, FunctionsOfOtherOpsetsAreErrors) {
  onnx::FunctionProto* function = add_function("F", {"a"}, {"r"});
  add_node(function, "Add", {"a", "a"}, {"r"});
  function->mutable_opset_import(0)->set_version(9);
  add_input("x", {"2"});
  call(&graph(), "F", {"x"}, {"y"});
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("opset 9 of ai.onnx is not supported; supported are 17 to 24"));
  function->mutable_opset_import(0)->set_version(18);
  *model_.add_functions() = *function;
  EXPECT_THAT(error(), HasSubstr("function 'F' of domain 'fn' is defined twice"));
}

}  // namespace
}  // namespace tutti::test
