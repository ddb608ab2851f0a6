#include "onnx/reader.h"

#include <random>

#include "model_fixture.h"

namespace tutti::test {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;
using ::testing::HasSubstr;

class ReaderTest : public ModelFixture {};

TEST_F(ReaderTest, NodesAreLoweredInOrderUnderTheNamesOfTheModel) {
  add_input("x", {"batch", "16"});
  add_input("y", {"batch", "16"});
  add_node("Add", {"x", "y"}, {"sum"}, "blocks.0/add");
  onnx::NodeProto* leaky = add_node("LeakyRelu", {"sum"}, {"out"});
  add_attribute(leaky, "alpha", AttributeProto::FLOAT)->set_f(0.5F);
  add_output("out");
  EXPECT_EQ(print(*read_ok()),
            "graph @g (%x: f32[batch, 16], %y: f32[batch, 16]) {\n"
            "  %sum: f32[batch, 16] = Add(%x, %y) @blocks.0/add\n"
            "  %out: f32[batch, 16] = Scale(%sum) {alpha = 0.5} @out\n"
            "  return %out\n"
            "}\n");
}

TEST_F(ReaderTest, DeadNodesAndConstantsAreGoneAndUnusedInputsStay) {
  add_input("x", {"2"});
  add_input("unused", {"3"});
  add_initializer("w", TensorProto::FLOAT, {1})->add_float_data(1);
  add_node("Add", {"x", "w"}, {"dead"});
  add_output("x");
  const auto graph = read_ok();
  EXPECT_TRUE(graph->nodes().empty());
  EXPECT_TRUE(graph->constants().empty());
  EXPECT_EQ(graph->inputs().size(), 2U);
}

TEST_F(ReaderTest, OutputsKeepTheirNamesEvenWhenTheyAreOtherValues) {
  add_input("x", {"2"});
  add_node("Identity", {"x"}, {"same"});
  add_node("Add", {"x", "x"}, {"sum"});
  add_node("Identity", {"sum"}, {"again"});
  add_output("same");
  add_output("sum");
  add_output("again");
  const auto graph = read_ok();
  EXPECT_EQ(graph->output_names, (std::vector<std::string>{"same", "sum", "again"}));
  EXPECT_EQ(graph->outputs()[0]->name(), "x");
  EXPECT_EQ(graph->outputs()[1], graph->outputs()[2]);
}

TEST_F(ReaderTest, AbsentOptionalInputsAreNull) {
  add_input("x", {"2"});
  add_node("Add", {"x", "", "x"}, {"y"});
  add_output("y");
  const auto graph = read_ok();
  EXPECT_EQ(graph->nodes().front()->input(1), nullptr);
  EXPECT_EQ(graph->nodes().front()->inputs().size(), 3U);
}

TEST_F(ReaderTest, OutputsThatNothingReadsAreNotAskedFor) {
  add_input("x", {"2"});
  add_node("LayerNormalization", {"x"}, {"y", "mean", "deviation"});
  add_output("y");
  read_ok();
  add_output("mean");
  EXPECT_THAT(error(), HasSubstr("node 'y' (LayerNormalization, ai.onnx opset 18): statistics"));
}

TEST_F(ReaderTest, SplitIsAskedForAllItsOutputs) {
  add_input("x", {"2"});
  add_node("Split", {"x"}, {"a", "b", "c"});
  add_output("a");
  EXPECT_EQ(read_ok()->nodes().size(), 1U);  // the lowering filled three; two are dead
}

TEST_F(ReaderTest, ValuesThatAreMissingOrMadeLaterAreErrorsThatNameThem) {
  add_input("x", {"2"});
  add_node("Add", {"x", "late"}, {"y"}, "n");
  add_node("Add", {"x", "x"}, {"late"});
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("node 'n' (Add, ai.onnx opset 18): input 'late' is no input"));
  EXPECT_THAT(error(), HasSubstr("topological order"));
}

TEST_F(ReaderTest, DuplicateNamesAreErrors) {
  add_input("x", {"2"});
  add_node("Add", {"x", "x"}, {"x"});
  add_output("x");
  EXPECT_THAT(error(), HasSubstr("output 'x' has the name of another value"));
  graph().clear_node();
  add_input("x", {"2"});
  EXPECT_THAT(error(), HasSubstr("two inputs have the name 'x'"));
}

TEST_F(ReaderTest, OutputsThatNothingMakesAreErrors) {
  add_input("x", {"2"});
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("output 'y' is made by no node"));
  graph().clear_output();
  EXPECT_THAT(error(), HasSubstr("the model has no outputs"));
}

TEST_F(ReaderTest, UnsupportedOperatorsNameNodeDomainOpsetAndTheNearestForm) {
  add_input("x", {"2"});
  onnx::NodeProto* node = add_node("LeakyReluu", {"x"}, {"y"}, "act");
  add_output("y");
  EXPECT_EQ(error(),
            "node 'act' (LeakyReluu, ai.onnx opset 18): operator LeakyReluu of domain ai.onnx, "
            "opset 18, is not supported; the nearest supported one is LeakyRelu");
  node->set_op_type("Late");
  EXPECT_THAT(error(), HasSubstr("supported is Late of domain ai.onnx from opset 21"));
  node->set_domain("com.example");
  EXPECT_THAT(error(), HasSubstr("the model imports no opset of domain 'com.example'"));
  import_opset("com.example", 3);
  EXPECT_THAT(error(), HasSubstr("operator Late of domain com.example, opset 3"));
}

TEST_F(ReaderTest, UnsupportedAttributesAreNamed) {
  add_input("x", {"2"});
  onnx::NodeProto* node = add_node("LeakyRelu", {"x"}, {"y"}, "act");
  add_attribute(node, "beta", AttributeProto::FLOAT);
  add_output("y");
  EXPECT_THAT(error(), HasSubstr("node 'act' (LeakyRelu, ai.onnx opset 18): attribute 'beta' of "
                                 "operator LeakyRelu is not supported; supported are [alpha]"));
  node->mutable_attribute(0)->set_name("alpha");
  node->mutable_attribute(0)->set_type(AttributeProto::SPARSE_TENSOR);
  EXPECT_THAT(error(), HasSubstr("attribute 'alpha' of kind SPARSE_TENSOR"));
  node->mutable_attribute(0)->set_type(AttributeProto::FLOAT);
  *node->add_attribute() = node->attribute(0);
  EXPECT_THAT(error(), HasSubstr("attribute 'alpha' is given twice"));
}

TEST_F(ReaderTest, OpsetsOutsideTheRangeAreErrorsWithTheRange) {
  add_input("x", {"2"});
  add_output("x");
  for (const int version : {16, 25}) {
    model_.mutable_opset_import(0)->set_version(version);
    EXPECT_EQ(error(), "opset " + std::to_string(version) +
                           " of ai.onnx is not supported; supported are 17 to 24");
  }
  for (const int version : {17, 24}) {
    model_.mutable_opset_import(0)->set_version(version);
    read_ok();
  }
  import_opset("ai.onnx.ml", 3);  // imported and unused
  read_ok();
}

TEST_F(ReaderTest, IrVersionsOutsideTheRangeAreErrors) {
  add_input("x", {"2"});
  add_output("x");
  model_.set_ir_version(2);
  EXPECT_THAT(error(), HasSubstr("IR version 2"));
  model_.set_ir_version(1000);
  EXPECT_THAT(error(), HasSubstr("IR version 1000"));
}

TEST_F(ReaderTest, FilesThatAreNoModelsAreErrors) {
  for (const std::string& bytes :
       {std::string(), std::string("\0\0\0", 3), std::string("hello"), std::string(1000, '\xff')}) {
    EXPECT_FALSE(
        read_onnx_bytes(std::as_bytes(std::span(bytes)), "", ops_, lowerings_, options_).ok());
  }
  EXPECT_EQ(read_onnx("/nonexistent.onnx", ops_, lowerings_, options_).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ReaderTest, TruncatedModelsNeverCrash) {
  add_input("x", {"batch", "?"});
  add_initializer("w", TensorProto::FLOAT, {2})->set_raw_data(std::string(8, 'a'));
  add_node("Add", {"x", "w"}, {"y"});
  add_output("y");
  const std::string bytes = model_.SerializeAsString();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_FALSE(read_onnx_bytes(std::as_bytes(std::span(cut)), "", ops_, lowerings_).ok())
        << length;
  }
}

TEST_F(ReaderTest, RandomlyMutatedModelsNeverCrash) {
  add_input("x", {"batch", "2*h", "?"});
  add_initializer("w", TensorProto::FLOAT, {2})->set_raw_data(std::string(8, 'a'));
  add_initializer("b", TensorProto::BFLOAT16, {1, 2})->add_int32_data(7);
  add_node("Add", {"x", "w"}, {"s"}, "first");
  onnx::NodeProto* leaky = add_node("LeakyRelu", {"s"}, {"y"});
  add_attribute(leaky, "alpha", AttributeProto::FLOAT)->set_f(0.5F);
  add_node("Split", {"y"}, {"p", "q"});
  add_output("q");
  const std::string original = model_.SerializeAsString();
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int errors = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string mutant = original;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const std::size_t at = below(mutant.size());
      switch (below(3)) {
        case 0: mutant[at] = static_cast<char>(random()); break;
        case 1: mutant.erase(at, 1 + below(8)); break;
        default: mutant.insert(at, mutant.substr(below(mutant.size()), 1 + below(8))); break;
      }
    }
    errors += read_onnx_bytes(std::as_bytes(std::span(mutant)), "", ops_, lowerings_).ok() ? 0 : 1;
  }
  EXPECT_GT(errors, 2500);
}

TEST_F(ReaderTest, DeviceAnnotationsAreKept) {
  add_input("x", {"2"});
  onnx::NodeProto* node = add_node("Add", {"x", "x"}, {"y"}, "n");
  add_output("y");
  onnx::DeviceConfigurationProto* configuration = model_.add_configuration();
  configuration->set_name("two");
  configuration->set_num_devices(2);
  onnx::NodeDeviceConfigurationProto* placement = node->add_device_configurations();
  placement->set_configuration_id("two");
  onnx::ShardingSpecProto* spec = placement->add_sharding_spec();
  spec->set_tensor_name("x");
  spec->add_device(0);
  spec->add_device(1);
  onnx::ShardedDimProto* dim = spec->add_sharded_dim();
  dim->set_axis(0);
  dim->add_simple_sharding()->set_num_shards(2);

  DeviceAnnotations annotations;
  options_.annotations = &annotations;
  read_ok();
  ASSERT_EQ(annotations.configurations.size(), 1U);
  EXPECT_EQ(annotations.configurations[0].num_devices, 2);
  ASSERT_EQ(annotations.placements.size(), 1U);
  EXPECT_EQ(annotations.placements[0].node, "n");
  const ShardingSpec& read = annotations.placements[0].shardings.at(0);
  EXPECT_EQ(read.devices, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(read.dims.at(0).cuts.at(0).num_shards, 2);

  placement->set_configuration_id("three");
  EXPECT_THAT(error(), HasSubstr("the model has no configuration 'three'"));
}

}  // namespace
}  // namespace tutti::test
