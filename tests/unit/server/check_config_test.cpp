#include "server/config/check_config.h"

#include <gmock/gmock.h>

#include "server/config/devices.h"

namespace tutti::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<BackendName> kKnown = {{"tutti", "tutti_plan"}};

ConfigFile parse(const std::string& text) {
  auto file = ConfigFile::parse(text, "config.pbtxt");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return *file;
}

ModelFacts model(int ranks = 1) {
  ModelFacts facts;
  facts.signature.inputs = {{"x", DType::kFloat32, {-1, 8}}, {"t", DType::kInt64, {-1}}};
  facts.signature.outputs = {{"y", DType::kFloat16, {-1, 8}}};
  facts.ranks = ranks;
  if (ranks > 1) facts.mesh = str_cat("cp=", ranks);
  return facts;
}

// Every check, in the order in which a load makes them.
Status check(const std::string& text, const ModelFacts& facts = model(), int gpus = 0) {
  const ConfigFile file = parse(text);
  std::vector<std::string> warnings;
  TUTTI_RETURN_IF_ERROR(check_config_file(file, "m", kKnown, {"cpu", gpus}, &warnings));
  const auto config = complete_config(file, "m", kKnown[0], facts);
  TUTTI_RETURN_IF_ERROR(check_config_model(file, config, facts));
  TUTTI_RETURN_IF_ERROR(assign_devices(file, config, facts));
  return Status();
}

struct BadConfig {
  const char* text;
  const char* expected;  // part of the message
};

class BadConfigs : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRefusedWithTheReason) {
  const Status status = check(GetParam().text);
  ASSERT_FALSE(status.ok()) << GetParam().text;
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().expected));
  EXPECT_THAT(status.message(), HasSubstr("config.pbtxt"));
}

constexpr BadConfig kBad[] = {
    {"metric_tags { key: 'a-b' value: 'x' }", "metric_tags: 'a-b' is no label"},
    {"model_metrics { metric_control { metric_identifier { family: "
     "'nv_inference_first_response_histogram_ms' } histogram_options { buckets: [4, 2] } } }",
     "model_metrics.metric_control[0].histogram_options.buckets: do not ascend"},
    {"backend: 'onnxruntime'", "becomes a plan for it with `tutti compile`"},
    {"name: 'other'", "name: 'other' differs from the model's folder 'm'"},
    {"backend: 'tensorrt'", "backend: 'tensorrt' is not available; available: backend 'tutti'"},
    {"platform: 'onnxruntime_onnx'", "platform: 'onnxruntime_onnx' is not available"},
    {"backend: 'tutti' platform: 'pytorch_libtorch'",
     "platform: 'pytorch_libtorch' is not available"},
    {"max_batch_size: -1", "max_batch_size: -1, expected >= 0"},
    {"version_policy { specific { } }", "version_policy.specific: names no version"},
    {"version_policy { specific { versions: [1, 0] } }", "versions[1]: 0, expected"},
    {"default_model_filename: '../model.plan'", "'../model.plan' is no plain file name"},
    {"default_model_filename: '..'", "is no plain file name"},
    // Tensors.
    {"input [ { name: 'x' dims: [-1, 8] } ]", "input[0].data_type: is absent for 'x'"},
    {"input [ { data_type: TYPE_FP32 dims: [8] } ]", "input[0].name: is empty"},
    {"output [ { name: 'y' data_type: TYPE_FP16 dims: [-2, 8] } ]", "output[0].dims[0]: -2 of 'y'"},
    {"output [ { name: 'y' data_type: TYPE_FP16 dims: [-1, 8] },"
     "         { name: 'y' data_type: TYPE_FP16 dims: [-1, 8] } ]",
     "output[1].name: 'y' is there twice"},
    {"output [ { name: 'z' data_type: TYPE_FP16 dims: [-1, 8] } ]",
     "output[0].name: the model has no output 'z', it has 'y'"},
    {"input [ { name: 'x' data_type: TYPE_FP32 dims: [-1, 8] } ]",
     "input: 't' of the model is missing; it has 'x', 't'"},
    {"output [ { name: 'y' data_type: TYPE_FP32 dims: [-1, 8] } ]",
     "output[0].data_type: TYPE_FP32 of 'y', the model has TYPE_FP16"},
    {"output [ { name: 'y' data_type: TYPE_FP16 dims: [-1, 9] } ]",
     "output[0].dims: [-1, 9] of 'y' differs from the model's [-1, 8] at dimension 1"},
    {"output [ { name: 'y' data_type: TYPE_FP16 dims: [-1, -1] } ]", "at dimension 1"},
    {"output [ { name: 'y' data_type: TYPE_FP16 dims: [8] } ]",
     "has rank 1, the model has [-1, 8]"},
    {"max_batch_size: 4 output [ { name: 'y' data_type: TYPE_FP16 dims: [-1, 8] } ]",
     "[-1, -1, 8] (batch first) of 'y' has rank 3"},
    // Instance groups.
    {"instance_group [ { kind: KIND_MODEL gpus: [0] } ]",
     "instance_group[0].gpus: is set with kind KIND_MODEL"},
    {"instance_group [ { kind: KIND_CPU gpus: [0] } ]", "instance_group[0].gpus"},
    {"instance_group [ { count: -3 } ]", "instance_group[0].count: -3 instances"},
    {"instance_group [ { count: 1 }, { kind: KIND_GPU gpus: [0] } ]",
     "instance_group[1].kind: KIND_GPU needs a GPU and this server has none"},
    {"instance_group [ { count: 1000000 } ]", "makes more than 256 instances"},
    {"instance_group [ { passive: true } ]", "instance_group[0].passive: is not supported"},
    // Several devices.
    {"parameters { key: 'enable_multi_device' value: { string_value: 'yes' } }",
     "parameters[\"enable_multi_device\"]: 'yes' is no truth value"},
    {"parameters { key: 'enable_multi_device' value: { string_value: '1' } }",
     "needs parameters[\"multi_device_gpus\"]"},
    {"parameters { key: 'multi_device_per_rank_engines' value: { string_value: 'true' } }",
     "multi_device_per_rank_engines\"]: is not supported"},
    // What this server does not do.
    {"sequence_batching { }", "sequence_batching: is not supported"},
    {"platform: 'ensemble'", "platform: 'ensemble' needs ensemble_scheduling"},
    {"model_transaction_policy { decoupled: true }", "model_transaction_policy.decoupled"},
    // Queues and batches.
    {"max_batch_size: 4 dynamic_batching { preferred_batch_size: [4, 5] }",
     "dynamic_batching.preferred_batch_size[1]: 5, expected 1 to 4"},
    {"max_batch_size: 4 dynamic_batching { preferred_batch_size: [0] }",
     "dynamic_batching.preferred_batch_size[0]: 0, expected 1 to 4"},
    {"dynamic_batching { priority_levels: 2 }", "default_priority_level: 0, expected 1 to 2"},
    {"dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
     "default_priority_level: 3, expected 1 to 2"},
    {"dynamic_batching { priority_levels: 2 default_priority_level: 1 "
     "priority_queue_policy { key: 3 value { max_queue_size: 1 } } }",
     "dynamic_batching.priority_queue_policy: key 3, expected 1 to 2"},
    {"dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
     "preserve_ordering: is true with 2 priority_levels"},
    {"dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY "
     "default_timeout_microseconds: 5 } }",
     "timeout_action is DELAY"},
    {"batch_input [ { kind: BATCH_ELEMENT_COUNT } ]", "batch_input: is not supported"},
    {"input [ { name: 'x' data_type: TYPE_FP32 dims: [8] allow_ragged_batch: true } ]",
     "input[0].allow_ragged_batch"},
    {"input [ { name: 'x' data_type: TYPE_FP32 dims: [8] optional: true } ]", "input[0].optional"},
};
INSTANTIATE_TEST_SUITE_P(Table, BadConfigs, ::testing::ValuesIn(kBad));

constexpr const char* kGood[] = {
    "",
    "name: 'm' backend: 'tutti' platform: 'tutti_plan'",
    "max_batch_size: 8",
    "max_batch_size: 8 output [ { name: 'y' data_type: TYPE_FP16 dims: [8] } ]",
    "instance_group [ { kind: KIND_CPU count: 2 } ]",
    "instance_group [ { kind: KIND_AUTO } ]",
    "instance_group [ { kind: KIND_MODEL count: 1 } ]",
    "input [ { name: 't' data_type: TYPE_INT64 dims: [-1] },"
    "        { name: 'x' data_type: TYPE_FP32 dims: [3, 8] } ]",
    "parameters { key: 'enable_multi_device' value: { string_value: 'false' } }",
    "parameters { key: 'anything' value: { string_value: 'else' } }",
    "version_policy { all { } }",
    "default_model_filename: 'other.plan'",
};
class GoodConfigs : public ::testing::TestWithParam<const char*> {};
TEST_P(GoodConfigs, Pass) {
  const Status status = check(GetParam());
  EXPECT_TRUE(status.ok()) << status.message();
}
INSTANTIATE_TEST_SUITE_P(Table, GoodConfigs, ::testing::ValuesIn(kGood));

TEST(CheckConfig, CountsInstancesOfManyGpusWithoutOverflow) {
  const Status status =
      check("instance_group [ { kind: KIND_GPU gpus: [0, 0] count: 2147483647 } ]", model(), 1);
  EXPECT_THAT(status.message(), HasSubstr("instance_group[0].count: makes more than 256"));
}

std::string multi_device(const std::string& ids, const std::string& group = "") {
  return str_cat("parameters { key: 'enable_multi_device' value: { string_value: 'true' } }\n",
                 "parameters { key: 'multi_device_gpus' value: { string_value: '", ids, "' } }\n",
                 group);
}

TEST(Devices, EachRankGetsTheDeviceAtItsPosition) {
  const ConfigFile file = parse(multi_device(
      "3, 1,1", "instance_group [ { kind: KIND_MODEL count: 2 }, { kind: KIND_MODEL } ]"));
  const auto config = complete_config(file, "m", kKnown[0], model(3));
  const auto devices = assign_devices(file, config, model(3));
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  const std::vector<int> ranks = {3, 1, 1};
  std::vector<std::vector<int>> placed;
  for (const Placement& placement : *devices) {
    EXPECT_FALSE(placement.is_on_cpu);
    placed.push_back(placement.devices);
  }
  EXPECT_THAT(placed, ElementsAre(ranks, ranks, ranks));
}

TEST(Devices, KindCpuStaysOnTheCpuWhateverTheServerHas) {
  const ConfigFile file = parse("instance_group [ { kind: KIND_CPU }, { kind: KIND_MODEL } ]");
  const auto config = complete_config(file, "m", kKnown[0], model(1));
  const auto devices = assign_devices(file, config, model(1));
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_TRUE((*devices)[0].is_on_cpu);
  EXPECT_FALSE((*devices)[1].is_on_cpu);
}

TEST(Devices, ListAndPlanOfDifferentSizesAreRefusedWithBothNumbers) {
  const Status status = check(multi_device("0,1,2"), model(4));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("names 3 devices"));
  EXPECT_THAT(status.message(), HasSubstr("compiled for 4 ranks (mesh cp=4)"));
  EXPECT_THAT(check(multi_device("0,1"), model(1)).message(), HasSubstr("names 2 devices"));
}

TEST(Devices, PlanOfSeveralRanksNeedsTheParameters) {
  EXPECT_THAT(check("", model(2)).message(),
              HasSubstr("is not set, but the plan was compiled for 2 ranks"));
}

TEST(Devices, ListIsParsedStrictly) {
  for (const char* ids : {"", "0", "0,", ",0", "0,,1", "0;1", "0,1x", "0,-1", "0,+1", "a,b",
                          "0,99999999999", "0, 1 2", "0x0,1"}) {
    const Status status = check(multi_device(ids), model(2));
    ASSERT_FALSE(status.ok()) << ids;
    EXPECT_THAT(status.message(), HasSubstr("multi_device_gpus")) << ids;
  }
  EXPECT_TRUE(check(multi_device("5,7"), model(2)).ok());
}

TEST(Devices, IdsAreCheckedAgainstTheGpusOfAMachineThatHasSome) {
  EXPECT_THAT(check(multi_device("0,2"), model(2), 2).message(),
              HasSubstr("device 2 does not exist"));
  EXPECT_TRUE(check(multi_device("0,1"), model(2), 2).ok());
}

TEST(Devices, SeveralDevicesNeedKindModel) {
  for (const char* kind : {"KIND_CPU", "KIND_AUTO"}) {
    const std::string group = str_cat("instance_group [ { kind: ", kind, " } ]");
    EXPECT_THAT(check(multi_device("0,1", group), model(2)).message(),
                HasSubstr("expected KIND_MODEL"));
  }
}

TEST(CompleteConfig, FillsInWhatTheFileLeavesOut) {
  const auto config = complete_config(ConfigFile::absent("c"), "m", kKnown[0], model(2));
  EXPECT_EQ(config.name(), "m");
  EXPECT_EQ(config.backend(), "tutti");
  EXPECT_EQ(config.platform(), "tutti_plan");
  EXPECT_EQ(config.max_batch_size(), 0);
  ASSERT_EQ(config.input_size(), 2);
  EXPECT_EQ(config.input(0).name(), "x");
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1, 8));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_FP16);
  ASSERT_EQ(config.instance_group_size(), 1);
  EXPECT_EQ(config.instance_group(0).kind(), inference::ModelInstanceGroup::KIND_MODEL);
  EXPECT_EQ(config.instance_group(0).count(), 1);
  EXPECT_EQ(config.default_model_filename(), "model.plan");
  EXPECT_EQ(config.version_policy().latest().num_versions(), 1U);
}

TEST(CompleteConfig, LeavesTheBatchDimensionOutWhenTheModelBatches) {
  const auto config = complete_config(parse("max_batch_size: 4"), "m", kKnown[0], model());
  EXPECT_THAT(config.input(0).dims(), ElementsAre(8));
  EXPECT_THAT(config.input(1).dims(), ElementsAre());
}

TEST(CheckConfigModel, BatchSizeAboveWhatTheModelTakesIsRefused) {
  ModelFacts bounded = model();
  bounded.largest_batch = 4;
  EXPECT_TRUE(check("max_batch_size: 4", bounded).ok());
  EXPECT_THAT(check("max_batch_size: 5", bounded).message(),
              HasSubstr("max_batch_size: 5, but the model takes batches of at most 4"));
  ModelFacts fixed = model();
  for (auto* specs : {&fixed.signature.inputs, &fixed.signature.outputs}) {
    for (TensorSpec& spec : *specs) spec.dims[0] = 2;
  }
  EXPECT_TRUE(check("max_batch_size: 2", fixed).ok());
  EXPECT_THAT(check("max_batch_size: 3", fixed).message(), HasSubstr("batches of 2 only"));
}

TEST(CheckConfigFile, TuningThatDoesNothingHereIsAWarning) {
  std::vector<std::string> warnings;
  const ConfigFile file = parse(
      "optimization { }\n"
      "model_metrics { metric_control { metric_identifier { family: 'nv_x' } } }\n"
      "metric_tags { key: 'a' value: 'b' }");
  EXPECT_TRUE(check_config_file(file, "m", kKnown, {"cpu", 0}, &warnings).ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr(":1: optimization"), HasSubstr("'nv_x' has no")));
}

}  // namespace
}  // namespace tutti::server
