// The forms of configuration that Triton's documentation shows: each is taken, or refused with the
// field that this server does not do.
#include <gmock/gmock.h>

#include "server/config/check_config.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

struct Sample {
  const char* name;
  const char* text;
  const char* refused;  // the field; "" for those that are taken
};

constexpr const char* kTensors =
    "input [ { name: 'in' data_type: TYPE_FP32 dims: [ 16 ] } ]\n"
    "output { name: 'out', data_type: TYPE_FP32, dims: [ 4, -1 ] }\n";

constexpr Sample kSamples[] = {
    {"minimal", "max_batch_size: 8", ""},
    {"of another framework", "platform: 'tensorrt_plan' max_batch_size: 8", "platform"},
    {"of another backend", "backend: 'python'", "backend"},
    {"versions", "version_policy: { all { }}", ""},
    {"latest versions", "version_policy: { latest { num_versions: 2}}", ""},
    {"specific versions", "version_policy: { specific { versions: [1,3]}}", ""},
    {"image input",
     "input [ { name: 'x' data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] } ]", ""},
    {"reshape",
     "input [ { name: 'x' data_type: TYPE_FP32 dims: [ 3 ] reshape { shape: [ 1, 3 ] } } ]",
     "input[0].reshape"},
    {"labels",
     "output [ { name: 'y' data_type: TYPE_FP32 dims: [ 9 ] label_filename: 'labels.txt' } ]", ""},
    {"shape tensor",
     "input [ { name: 'x' data_type: TYPE_INT32 dims: [ 1 ] is_shape_tensor: true } ]",
     "input[0].is_shape_tensor"},
    {"ragged batch",
     "input [ { name: 'x' data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } ]",
     "input[0].allow_ragged_batch"},
    {"ragged indexes",
     "batch_input [ { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: 'i' data_type: TYPE_FP32 "
     "source_input: 'x' } ]",
     "batch_input"},
    {"two instances on the CPU", "instance_group [ { count: 2 kind: KIND_CPU } ]", ""},
    {"instances on GPUs", "instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] } ]",
     "instance_group[0].kind"},
    {"rate limiter",
     "instance_group [ { count: 2 kind: KIND_CPU rate_limiter { resources [ { name: 'R1' count: 4 "
     "}, "
     "{ name: 'R2' global: True count: 2 } ] priority: 2 } } ]",
     ""},
    {"host policy", "instance_group [ { count: 2 kind: KIND_CPU host_policy: 'policy_0' } ]", ""},
    {"dynamic batching", "max_batch_size: 8 dynamic_batching { }", ""},
    {"preferred sizes and delay",
     "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 8 ] "
     "max_queue_delay_microseconds: 100 }",
     ""},
    {"ordered", "max_batch_size: 8 dynamic_batching { preserve_ordering: true }", ""},
    {"priorities",
     "dynamic_batching { priority_levels: 2 default_priority_level: 2 default_queue_policy { "
     "timeout_action: REJECT default_timeout_microseconds: 100 allow_timeout_override: true "
     "max_queue_size: 4 } priority_queue_policy { key: 1 value: { timeout_action: DELAY } } }",
     ""},
    {"sequences",
     "sequence_batching { control_input [ { name: 'START' control [ { kind: CONTROL_SEQUENCE_START "
     "int32_false_true: [ 0, 1 ] } ] } ] }",
     "sequence_batching"},
    {"decoupled", "model_transaction_policy { decoupled: True }",
     "model_transaction_policy.decoupled"},
    {"optimization",
     "optimization { execution_accelerators { gpu_execution_accelerator : [ { name : 'tensorrt' "
     "parameters { key: 'precision_mode' value: 'FP16' } } ] } }",
     ""},
    {"cuda graphs", "optimization { cuda { graphs: true } }", ""},
    {"priority of a model", "optimization { priority: PRIORITY_MAX }", ""},
    {"response cache", "response_cache { enable: true }", ""},
    {"warm-up",
     "model_warmup [ { name: 'sample' batch_size: 1 inputs { key: 'in' value: { data_type: "
     "TYPE_FP32 "
     "dims: [ 16 ] zero_data: true } } } ]",
     ""},
    {"repository agent",
     "model_repository_agents { agents [ { name: 'checksum' parameters { key: 'a' value: 'b' } } ] "
     "}",
     "model_repository_agents"},
    {"operations", "model_operations { op_library_filename: 'a.so' }", "model_operations"},
    {"metric tags", "metric_tags { key: 'a' value: 'b' }", ""},
    {"metrics of a model",
     "model_metrics { metric_control: [ { metric_identifier: { family: "
     "'nv_inference_first_response_"
     "histogram_ms' } histogram_options: { buckets: [ 1, 2, 4 ] } } ] }",
     ""},
    {"parameters", "parameters: { key: 'KIND' value: { string_value: 'value' } }", ""},
    {"compute capabilities", "cc_model_filenames [ { key: '7.5' value: 'model_75.plan' } ]",
     "cc_model_filenames"},
    {"unknown field", "max_batch: 8", "max_batch"},
    {"ensemble without steps", "platform: 'ensemble'", "platform"},
};

class ConfigSamples : public ::testing::TestWithParam<Sample> {};

TEST_P(ConfigSamples, AreTakenOrRefusedByName) {
  const Sample& sample = GetParam();
  std::string text = sample.text;
  if (text.find("input") == std::string::npos && text.find("output") == std::string::npos) {
    text += std::string("\n") + kTensors;
  }
  std::vector<std::string> warnings;
  const auto check = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::parse(text, "config.pbtxt"));
    return check_config_file(file, "m", {{"tutti", "tutti_plan"}}, {"cpu", 0}, &warnings);
  };
  const Status status = check();
  if (*sample.refused == '\0') {
    EXPECT_TRUE(status.ok()) << sample.name << ": " << status.message();
  } else {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << sample.name;
    EXPECT_THAT(status.message(), HasSubstr("config.pbtxt:1")) << sample.name;
    EXPECT_THAT(status.message(), HasSubstr(sample.refused)) << sample.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Published, ConfigSamples, ::testing::ValuesIn(kSamples));

}  // namespace
}  // namespace tutti::server
