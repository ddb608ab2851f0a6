#include "plan/plan.h"

#include <gmock/gmock.h>

#include <cstring>

#include "graph/printer.h"
#include "plan_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

class PlanTest : public PlanFixture {};

TEST_F(PlanTest, ReadingGivesBackWhatWasWritten) {
  const Plan plan = make_plan();
  const Status written = write_plan(plan, path_);
  ASSERT_TRUE(written.ok()) << written.to_string();
  const auto read = read_plan(path_, ops_);
  ASSERT_TRUE(read.ok()) << read.status().to_string();

  EXPECT_EQ(print(*read->main), print(*plan.main));
  EXPECT_EQ(print(*read->prologue), print(*plan.prologue));
  EXPECT_EQ(read->mesh, plan.mesh);
  EXPECT_EQ(read->inputs, plan.inputs);
  EXPECT_EQ(read->outputs, plan.outputs);
  EXPECT_EQ(read->invariant_inputs, plan.invariant_inputs);
  EXPECT_EQ(read->dims, plan.dims);
  EXPECT_EQ(read->exchanges, plan.exchanges);
  EXPECT_EQ(read->strategy, plan.strategy);
  EXPECT_EQ(read->source_hash, plan.source_hash);
  EXPECT_EQ(read->compiler_version, TUTTI_VERSION);
}

TEST_F(PlanTest, WeightsKeepTheirBytesAndLieOnPagesOfTheDataFile) {
  const Plan plan = make_plan();
  ASSERT_TRUE(write_plan(plan, path_).ok());
  const auto read = read_plan(path_, ops_);
  ASSERT_TRUE(read.ok());
  for (const char* name : {"weights", "small"}) {
    const Tensor& before = plan.main->find_value(name)->constant();
    const Tensor& after = read->main->find_value(name)->constant();
    ASSERT_EQ(before.desc(), after.desc());
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.byte_size()), 0);
  }
  const auto page_of = [](const Value* value) {
    return reinterpret_cast<std::uintptr_t>(value->constant().data()) % 4096;
  };
  EXPECT_EQ(page_of(read->main->find_value("weights")), 0U);
  // Two weights of 4,000 and 8,000 bytes; the prologue's copy of the first shares its place.
  EXPECT_EQ(read->data_bytes, 4096 + 8000);
  EXPECT_EQ(read->prologue->find_value("shared")->constant().data(),
            read->main->find_value("weights")->constant().data());
}

TEST_F(PlanTest, APlanWithoutLargeWeightsOrPrologueIsOneFile) {
  Plan plan;
  plan.inputs = {{"x", DType::kFloat32, {2}}};
  plan.outputs = {{"y", DType::kFloat32, {2}}};
  plan.main = std::make_unique<Graph>();
  Value* x = plan.main->add_input("x", {DType::kFloat32, {2}});
  plan.main->add_output(append(plan.main.get(), "Add", {x, x}, {}, "y")->output());
  plan.main->output_names = {"y"};
  write_file(path_ + ".data", "left over from an earlier plan");
  ASSERT_TRUE(write_plan(plan, path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".data"));
  const auto read = read_plan(path_, ops_);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->prologue, nullptr);
  EXPECT_EQ(print(*read->main), print(*plan.main));
}

TEST_F(PlanTest, WritingLeavesNothingButTheTwoFiles) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("model.plan", "model.plan.data"));
}

TEST_F(PlanTest, MappedWeightsOutliveThePlanAndTheFile) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  Tensor weights;
  {
    const auto read = read_plan(path_, ops_);
    ASSERT_TRUE(read.ok());
    weights = read->main->find_value("weights")->constant();
  }
  std::filesystem::remove_all(folder_.path());
  EXPECT_EQ(weights.data_as<float>()[999], 999.5F);
}

TEST_F(PlanTest, TheFileIsAnOnnxModelWhoseFirstNodeIsThePrologue) {
  ASSERT_TRUE(write_plan(make_plan(), path_).ok());
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(read_file(path_)));
  EXPECT_EQ(model.producer_name(), "tutti");
  EXPECT_EQ(model.metadata_props(model.metadata_props_size() - 1).key(), "tutti.digest");
  ASSERT_EQ(model.graph().node_size(), 4);
  EXPECT_EQ(model.graph().node(0).op_type(), "Prologue");
  EXPECT_EQ(model.graph().node(0).output(0), "hoisted");
  ASSERT_EQ(model.graph().input_size(), 3);
  EXPECT_EQ(model.graph().input(1).name(), "unused");
  EXPECT_EQ(model.graph().node(1).attribute(0).strings(1), "part(t,4,rank.cp)");
}

TEST_F(PlanTest, WritingRefusesWhatWouldNotReadBack) {
  Plan plan = make_plan();
  plan.main->find_value("v0")->set_type({DType::kFloat32, {3}});
  EXPECT_THAT(write_plan(plan, path_).message(), HasSubstr("output 'v0' is f32[3], inferred is"));

  plan = make_plan();
  plan.inputs[0].shape = {1, 2};
  EXPECT_THAT(write_plan(plan, path_).message(), HasSubstr("input 'x' is f32[batch, t]"));

  plan = make_plan();
  plan.invariant_inputs = {"nothing"};
  EXPECT_THAT(write_plan(plan, path_).message(), HasSubstr("invariant input 'nothing'"));

  plan = make_plan();
  plan.dims["t"] = {5, 4, 6};
  EXPECT_THAT(write_plan(plan, path_).message(), HasSubstr("size 't' ranges over 5, 4, 6"));
  EXPECT_FALSE(std::filesystem::exists(path_));

  EXPECT_EQ(write_plan(make_plan(), "/nonexistent/folder/model.plan").code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace tutti::test
