// config.pbtxt, and its JSON form of a load request, through every check that a load makes.
#include "fuzz/surface.h"
#include "server/config/check_config.h"
#include "server/config/check_scheduling.h"
#include "server/config/devices.h"
#include "server/ensemble/graph.h"
#include "server/json/proto.h"
#include "server/repository/load_override.h"
#include "server/scheduler/instance_claims.h"
#include "server/scheduler/scheduling_options.h"
#include "server/warmup.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it

const std::vector<BackendName> kKnown = {{"tutti", "tutti_plan"}, {"", "ensemble"}};

void check_against_model(const ConfigFile& file, const ModelFacts& facts,
                         const DeviceFacts& devices) {
  const auto config = complete_config(file, "m", kKnown[0], facts, devices);
  if (const Status status = check_config_model(file, config, facts); !status.ok()) {
    return check_error(status);
  }
  const auto placements = assign_devices(file, config, facts);
  if (!check_result(placements)) return;
  require(placements->size() <= kMostInstances, "a model has a bounded number of instances");
  RateLimitOptions limits;
  limits.counts_executions = true;
  RateLimiter limiter;
  for (const Placement& placement : *placements) {
    const auto& group = config.instance_group(placement.group);
    auto claims = instance_claims(group.rate_limiter(), placement.devices, devices.backend, limits);
    check_error(limiter.join(std::move(claims), group.rate_limiter().priority()).status());
  }
  const SchedulingOptions scheduling = scheduling_options(config, 16);
  scheduling.policy_of(scheduling.level_of(1));
  check_error(check_warmup(file, config));
  json_text(proto_to_json(config));
}

void check(const ConfigFile& file, const DeviceFacts& devices) {
  std::vector<std::string> warnings;
  const Status status = check_config_file(file, "m", kKnown, devices, &warnings);
  if (!status.ok()) return check_error(status);
  require(warnings.size() < 1000, "warnings are few");
  if (file.config().has_ensemble_scheduling()) {
    const auto graph = make_ensemble_graph(file);
    if (check_result(graph)) graph->steps_for({"y"});
    json_text(proto_to_json(complete_ensemble_config(file, "m")));
    return;
  }
  ModelFacts facts;
  facts.signature.inputs = {{"x", DType::kFloat32, {-1, 8}}, {"t", DType::kInt64, {-1}}};
  facts.signature.outputs = {{"y", DType::kFloat16, {-1, 8}}};
  facts.largest_batch = 64;
  check_against_model(file, facts, devices);
  facts.ranks = 2;
  facts.mesh = "cp=2";
  check_against_model(file, facts, devices);
}

void run(std::string_view input) {
  const bool is_json = input.starts_with('{');
  auto file = is_json ? override_config(std::string(input))
                      : ConfigFile::parse(std::string(input), "config.pbtxt");
  if (!check_result(file)) return;
  check(*file, {"cpu", 0});
  check(*file, {"cuda", 4});
}

std::vector<std::string> seeds() {
  return {
      "name: 'm'\nbackend: 'tutti'\nmax_batch_size: 8\n"
      "input [ { name: 'x' data_type: TYPE_FP32 dims: [8] }, { name: 't' data_type: TYPE_INT64 } "
      "]\n"
      "output [ { name: 'y' data_type: TYPE_FP16 dims: [8] } ]\n",
      "instance_group [ { kind: KIND_MODEL count: 2 rate_limiter { priority: 2 resources [ "
      "{ name: 'R' count: 3 }, { name: 'G' global: true count: 1 } ] } } ]\n"
      "parameters { key: 'enable_multi_device' value { string_value: 'true' } }\n"
      "parameters { key: 'multi_device_gpus' value { string_value: '0,1;2, 3' } }\n",
      "instance_group { kind: KIND_GPU count: 2 gpus: [0, 1, 1] }\n",
      "max_batch_size: 8 dynamic_batching { preferred_batch_size: [4, 8] "
      "max_queue_delay_microseconds: 100 priority_levels: 3 default_priority_level: 2 "
      "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } "
      "priority_queue_policy { key: 1 value { max_queue_size: 4 allow_timeout_override: true } } }",
      "version_policy { specific { versions: [1, 2] } } default_model_filename: 'model.plan'",
      "version_policy: { latest { num_versions: 2 } } response_cache { enable: true }",
      "platform: 'ensemble' input [ { name: 'a' data_type: TYPE_FP32 dims: [4] } ] "
      "output [ { name: 'c' data_type: TYPE_FP32 dims: [4] } ] ensemble_scheduling { step [ "
      "{ model_name: 'p' model_version: -1 input_map { key: 'x' value: 'a' } "
      "output_map { key: 'y' value: 'b' } }, { model_name: 'q' model_version: 1 "
      "input_map { key: 'x' value: 'b' } output_map { key: 'y' value: 'c' } } ] }",
      "model_warmup [ { name: 'w' batch_size: 1 count: 2 inputs { key: 'x' value { "
      "data_type: TYPE_FP32 dims: [2, 8] zero_data: true } } inputs { key: 't' value { "
      "data_type: TYPE_INT64 dims: [3] random_data: true } } } ]",
      "# comment\nparameters: { key: \"a\\n\" value: { string_value: '\\303\\251' } };\n"
      "optimization { cuda { graphs: true } } model_transaction_policy { decoupled: false }",
      R"({"name":"m","max_batch_size":4,"input":[{"name":"x","data_type":"TYPE_FP32",)"
      R"("dims":["8"]}],"instance_group":[{"count":1,"kind":"KIND_CPU"}]})",
  };
}

const Registration registration({"config", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
