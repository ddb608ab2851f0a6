#include <gmock/gmock.h>

#include "loading_fixture.h"

namespace tutti::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTensors =
    "platform: 'ensemble'\n"
    "input [ { name: 'in' data_type: TYPE_FP32 dims: [-1, 4] } ]\n"
    "output [ { name: 'out' data_type: TYPE_FP32 dims: [-1, 4] } ]\n";

std::string step(const std::string& model, const std::string& input, const std::string& output) {
  return "step [ { model_name: '" + model + "' model_version: -1 input_map { key: 'x' value: '" +
         input + "' } output_map { key: 'y' value: '" + output + "' } } ]\n";
}

std::string ensemble(const std::string& steps) {
  return kTensors + "ensemble_scheduling {\n" + steps + "}\n";
}

const std::vector<float> kRow = {1, 2, 3, 4};

// Models m (identity), broken (every request fails), text (BYTES), gated.
class EnsembleTest : public test::LoadingFixture {
 protected:
  void SetUp() override {
    folder_.write("m/1/model.plan", "identity");
    folder_.write("broken/1/model.plan", "failing");
    folder_.write("text/1/model.plan", "string");
  }
  void write(const std::string& config, const std::string& name = "e") {
    folder_.write(name + "/config.pbtxt", config);
    folder_.write(name + "/1/note", "");
  }
  Status start_with(const std::string& config) {
    write(config);
    return start();
  }
};

TEST_F(EnsembleTest, TensorsGoFromStepToStep) {
  ASSERT_TRUE(
      start_with(ensemble(step("m", "b", "out") + step("m", "in", "a") + step("m", "a", "b")))
          .ok());
  const auto answer = ask("e", "in", kRow);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.floats(), kRow);
  EXPECT_EQ(answer.response.model_name, "e");
  EXPECT_EQ(answer.response.outputs[0].name, "out");
  EXPECT_THAT(answer.response.outputs[0].shape, ElementsAre(1, 4));
  EXPECT_EQ(statistics("e").success.count, 1U);
  EXPECT_EQ(statistics("e").execution_count, 1U);
  EXPECT_EQ(statistics("m").execution_count, 3U);
}

TEST_F(EnsembleTest, OutputsThatOtherStepsReadAreWrittenOnce) {
  const std::string config = ensemble(step("m", "in", "middle") + step("m", "middle", "out")) +
                             "output [ { name: 'middle' data_type: TYPE_FP32 dims: [-1, 4] } ]";
  ASSERT_TRUE(start_with(config).ok());
  const auto answer = ask("e", "in", kRow, {"middle", "out"});
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_EQ(answer.floats(0), kRow);
  EXPECT_EQ(answer.floats(1), kRow);
  EXPECT_EQ(answer.response.outputs[0].name, "middle");
}

TEST_F(EnsembleTest, StepsThatNoWantedOutputNeedsDoNotRun) {
  const std::string config = ensemble(step("m", "in", "out") + step("broken", "out", "more")) +
                             "output [ { name: 'more' data_type: TYPE_FP32 dims: [-1, 4] } ]";
  ASSERT_TRUE(start_with(config).ok());
  EXPECT_TRUE(ask("e", "in", kRow, {"out"}).status.ok());
  const auto failed = ask("e", "in", kRow, {"more"});
  EXPECT_EQ(failed.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status.message(), HasSubstr("step 'broken'"));
  EXPECT_THAT(failed.status.message(), HasSubstr("lost its device"));
  EXPECT_EQ(statistics("e").fail.count, 1U);
}

TEST_F(EnsembleTest, CancelledRequestStopsBetweenSteps) {
  folder_.write("slow/1/model.plan", "gated");
  ASSERT_TRUE(start_with(ensemble(step("slow", "in", "a") + step("m", "a", "out"))).ok());
  std::stop_source cancel;
  auto answer = send("e", "in", kRow, {}, cancel.get_token());
  gate_->await_arrivals(1);
  cancel.request_stop();
  gate_->open();
  EXPECT_EQ(answer.get().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(statistics("m").execution_count, 0U);
}

TEST_F(EnsembleTest, EnsemblesMayUseEnsembles) {
  write(ensemble(step("m", "in", "out")), "inner");
  const std::string outer =
      "step [ { model_name: 'inner' model_version: 1 input_map { key: 'in' value: 'in' } "
      "output_map { key: 'out' value: 'out' } } ]";
  ASSERT_TRUE(start_with(ensemble(outer)).ok());
  EXPECT_EQ(ask("e", "in", kRow).floats(), kRow);
}

TEST_F(EnsembleTest, StepsAreLoadedWithTheirEnsemble) {
  write(ensemble(step("m", "in", "out")));
  ASSERT_TRUE(start(0, ControlMode::kExplicit).ok());
  ASSERT_TRUE(repository_->load("e").ok());
  EXPECT_TRUE(repository_->find("m", "").ok());
  EXPECT_FALSE(repository_->find("text", "").ok());
  EXPECT_EQ(ask("e", "in", kRow).floats(), kRow);
  ASSERT_TRUE(repository_->unload("m").ok());
  EXPECT_FALSE(*service_->is_model_ready("e", ""));
  EXPECT_EQ(ask("e", "in", kRow).status.code(), StatusCode::kUnavailable);
  ASSERT_TRUE(repository_->load("m").ok());
  EXPECT_EQ(ask("e", "in", kRow).floats(), kRow);
  ASSERT_TRUE(repository_->unload("e", true).ok());
  EXPECT_FALSE(repository_->find("m", "").ok());
}

struct BadEnsemble {
  std::string config;
  std::string message;
};

class BadEnsembles : public EnsembleTest, public ::testing::WithParamInterface<int> {};

const std::vector<BadEnsemble>& bad_ensembles() {
  static const std::vector<BadEnsemble> kBad = {
      {ensemble(""), "ensemble_scheduling.step: is empty"},
      {ensemble(step("m", "nowhere", "out")),
       "step[0].input_map: 'nowhere' is neither an input of the ensemble nor in any output_map"},
      {ensemble(step("m", "in", "other")), "output[0].name: 'out' is in no step's output_map"},
      {ensemble(step("m", "in", "out") + step("m", "in", "out")),
       "step[1].output_map: 'out' is an input of the ensemble or made by another output already"},
      {ensemble(step("m", "in", "in")), "step[0].output_map: 'in' is an input"},
      {ensemble(step("m", "in", "out") + step("m", "b", "a") + step("m", "a", "b")),
       "there is a cycle: steps 1 ('m'), 2 ('m') wait for each other's outputs"},
      {ensemble(step("e", "in", "out")), "the ensemble is a step of itself"},
      {ensemble(step("nope", "in", "out")), "failed to load 'nope'"},
      {ensemble(step("../m", "in", "out")), "step[0].model_name: '../m' is no model's name"},
      {ensemble(step("text", "in", "out")),
       "step 'text': tensor 'in' is FP32 [-1, 4], but 'x' is BYTES [-1, 4]"},
      {ensemble("step [ { model_name: 'm' input_map { key: 'x' value: 'in' } "
                "output_map { key: 'y' value: 'out' } } ]"),
       "step[0].model_version: 0, expected a version, or -1"},
      {ensemble("step [ { model_name: 'm' model_version: -1 input_map { key: 'z' value: 'in' } "
                "output_map { key: 'y' value: 'out' } } ]"),
       "step 'm': the model has no input 'z'"},
      {ensemble("step [ { model_name: 'm' model_version: -1 input_map { key: 'x' value: 'in' } "
                "output_map { key: 'w' value: 'out' } } ]"),
       "step 'm': the model has no output 'w'"},
      {kTensors, "platform: 'ensemble' needs ensemble_scheduling"},
      {ensemble(step("m", "in", "out")) + "backend: 'tutti'", "backend: is set for an ensemble"},
      {ensemble(step("m", "in", "out")) + "instance_group [ { count: 2 } ]",
       "instance_group: is set for an ensemble"},
  };
  return kBad;
}

TEST_P(BadEnsembles, AreRefusedByName) {
  const BadEnsemble& bad = bad_ensembles()[static_cast<std::size_t>(GetParam())];
  EXPECT_THAT(start_with(bad.config).message(), HasSubstr(bad.message)) << bad.config;
  EXPECT_TRUE(repository_->find("m", "").ok());
}
INSTANTIATE_TEST_SUITE_P(Table, BadEnsembles,
                         ::testing::Range(0, static_cast<int>(bad_ensembles().size())));

TEST_F(EnsembleTest, TwoThatNameEachOtherAreRefusedAndDoNotHang) {
  const auto of = [](const std::string& other) {
    return ensemble("step [ { model_name: '" + other +
                    "' model_version: -1 input_map { key: 'in' value: 'in' } "
                    "output_map { key: 'out' value: 'out' } } ]");
  };
  write(of("f"), "e");
  write(of("e"), "f");
  EXPECT_THAT(start().message(), HasSubstr("the ensemble is a step of itself"));
}

// What a cache and warm-up requests change for one model.

TEST_F(EnsembleTest, SameRequestIsAnsweredFromTheCache) {
  folder_.write("m/config.pbtxt", "response_cache { enable: true }");
  ASSERT_TRUE(start(1 << 20).ok());
  const std::vector<float> other = {5, 6, 7, 8};
  EXPECT_EQ(ask("m", "x", kRow).floats(), kRow);
  const auto hit = ask("m", "x", kRow);
  EXPECT_EQ(hit.floats(), kRow);
  EXPECT_THAT(hit.response.outputs[0].shape, ElementsAre(1, 4));
  EXPECT_EQ(ask("m", "x", other).floats(), other);
  const StatisticsSnapshot now = statistics("m");
  EXPECT_EQ(now.success.count, 3U);
  EXPECT_EQ(now.cache_hit.count, 1U);
  EXPECT_EQ(now.cache_miss.count, 2U);
  EXPECT_EQ(now.execution_count, 2U);
  EXPECT_EQ(now.inference_count, 2U);
}

TEST_F(EnsembleTest, ReloadedModelsDoNotAnswerFromBefore) {
  folder_.write("m/config.pbtxt", "response_cache { enable: true }");
  ASSERT_TRUE(start(1 << 20, ControlMode::kExplicit).ok());
  ASSERT_TRUE(repository_->load("m").ok());
  EXPECT_EQ(ask("m", "x", kRow).floats(), kRow);
  ASSERT_TRUE(repository_->load("m").ok());
  EXPECT_EQ(ask("m", "x", kRow).floats(), kRow);
  EXPECT_EQ(statistics("m").cache_hit.count, 0U);
}

TEST_F(EnsembleTest, WithoutACacheOnTheServerEveryRequestRuns) {
  folder_.write("m/config.pbtxt", "response_cache { enable: true }");
  ASSERT_TRUE(start().ok());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask("m", "x", kRow).floats(), kRow);
  EXPECT_EQ(statistics("m").execution_count, 2U);
  EXPECT_EQ(statistics("m").cache_miss.count, 0U);
}

std::string warmup(const std::string& input, const std::string& rest = "batch_size: 1") {
  return "model_warmup [ { name: 'first' " + rest + " inputs { key: 'x' value { " + input +
         " } } } ]";
}

TEST_F(EnsembleTest, WarmupRunsBeforeTheModelIsReady) {
  folder_.write("slow/1/model.plan", "gated");
  folder_.write(
      "slow/config.pbtxt",
      "max_batch_size: 8 instance_group [ { count: 2 kind: KIND_CPU } ]" +
          warmup("data_type: TYPE_FP32 dims: [4] random_data: true", "batch_size: 3 count: 2"));
  auto started = std::async(std::launch::async, [&] { return start(); });
  gate_->await_arrivals(1);
  gate_->open();
  EXPECT_TRUE(started.get().ok());
  gate_->await_arrivals(4);                         // two instances, two times
  EXPECT_EQ(statistics("slow").success.count, 0U);  // no client asked for it
}

TEST_F(EnsembleTest, WarmupThatFailsFailsTheLoad) {
  folder_.write("broken/config.pbtxt", warmup("data_type: TYPE_FP32 dims: [1, 4] zero_data: true"));
  EXPECT_THAT(start().message(),
              HasSubstr("model_warmup[0] 'first': rank 1 of 2: lost its device"));
}

TEST_F(EnsembleTest, WarmupDataComeFromFilesAndAreChecked) {
  const std::string config = warmup("data_type: TYPE_FP32 dims: [1, 4] input_data_file: 'row'");
  folder_.write("m/config.pbtxt", config);
  EXPECT_THAT(start().message(), HasSubstr("warmup/row' is missing"));
  folder_.write("m/warmup/row", "short");
  EXPECT_THAT(start().message(), HasSubstr("input 'x': 5 bytes of data, expected 16"));
  folder_.write("m/warmup/row", test::raw(kRow));
  EXPECT_TRUE(start().ok());
  for (const auto& [input, message] : std::vector<std::pair<std::string, std::string>>{
           {"data_type: TYPE_FP32 dims: [1, 4]", "has no data"},
           {"data_type: TYPE_FP16 dims: [1, 4] zero_data: true", "the model has TYPE_FP32"},
           {"data_type: TYPE_FP32 dims: [1, 5] zero_data: true", "does not fit [?, 4]"},
           {"data_type: TYPE_FP32 dims: [-1, 4] zero_data: true", "size -1 in dims"},
           {"data_type: TYPE_FP32 dims: [1, 4] input_data_file: '../x'", "no plain file name"}}) {
    folder_.write("m/config.pbtxt", warmup(input));
    EXPECT_THAT(start().message(), HasSubstr(message)) << input;
  }
  folder_.write("m/config.pbtxt",
                warmup("data_type: TYPE_FP32 dims: [1, 4] zero_data: true", "batch_size: 2"));
  EXPECT_THAT(start().message(), HasSubstr("model_warmup[0].batch_size: 2, expected 1 to 1"));
}

}  // namespace
}  // namespace tutti::server
