#include "cli/triton_flags.h"

#include <CLI/CLI.hpp>

namespace tutti::cli {
namespace {

constexpr const char* kGroup = "Of Triton, without effect or by another name here";

struct Flag {
  const char* name;
  const char* why;
};

constexpr Flag kIgnored[] = {
    {"--backend-config", "plans have no settings but those of config.pbtxt"},
    {"--disable-auto-complete-config", "what a config leaves out is always read from the plan"},
    {"--strict-model-config", "what a config leaves out is always read from the plan"},
    {"--grpc-header-forward-pattern", "no plan reads request parameters"},
    {"--grpc-infer-thread-count", "gRPC's callbacks run on its own threads"},
    {"--grpc-infer-allocation-pool-size", "requests are not pooled"},
    {"--grpc-max-response-pool-size", "64 requests of a stream are in flight at most"},
    {"--model-load-retry-count", "a load that failed is not tried again until it is asked for"},
    {"--enable-peer-access", "ranks use it where their exchanges need it"},
    {"--pinned-memory-pool-byte-size", "each instance has the pinned memory that it needs"},
    {"--cuda-memory-pool-byte-size", "each rank has one arena, planned by the compiler"},
    {"--cuda-virtual-address-size", "each rank has one arena, planned by the compiler"},
    {"--min-supported-compute-capability", "the CUDA plug-in says which GPUs it runs on"},
    {"--buffer-manager-thread-count", "tensors are read and written where they lie"},
    {"--host-policy", "there are no host policies"},
    {"--model-load-gpu-limit", "a rank's memory is bounded when its plan is compiled"},
    {"--cache-directory", "the response cache is in the program"},
    {"--repoagent-directory", "there are no repository agents"},
    {"--sagemaker-port", "there is no SageMaker endpoint"},
    {"--sagemaker-safe-port-range", "there is no SageMaker endpoint"},
    {"--sagemaker-thread-count", "there is no SageMaker endpoint"},
    {"--vertex-ai-port", "there is no Vertex AI endpoint"},
    {"--vertex-ai-thread-count", "there is no Vertex AI endpoint"},
    {"--vertex-ai-default-model", "there is no Vertex AI endpoint"},
};

constexpr Flag kRefused[] = {
    {"--allow-sagemaker",
     "there is no SageMaker endpoint; route /invocations to "
     "/v2/models/MODEL/infer on --http-port"},
    {"--allow-vertex-ai",
     "there is no Vertex AI endpoint; route its predictions to "
     "/v2/models/MODEL/infer on --http-port"},
    {"--model-namespacing", "names of models must be distinct over all repositories"},
};

// Before --trace-config there was a flag for each of its settings.
constexpr Flag kTraces[] = {
    {"--trace-level", "level="},
    {"--trace-rate", "rate="},
    {"--trace-count", "count="},
    {"--trace-file", "triton,file="},
    {"--trace-log-frequency", "triton,log-frequency="},
};

void add_ignored(CLI::App& command, const Flag& flag, TritonFlags* flags) {
  command
      .add_option_function<std::vector<std::string>>(
          flag.name,
          [flags, flag](const std::vector<std::string>&) { flags->ignored[flag.name] = flag.why; },
          flag.why)
      ->group(kGroup)
      ->allow_extra_args(false);
}

void add_refused(CLI::App& command, const Flag& flag) {
  const auto check = [flag](bool is_wanted) {
    if (is_wanted) throw CLI::ValidationError(flag.name, flag.why);
  };
  command.add_option_function<bool>(flag.name, check, std::string("false only: ") + flag.why)
      ->group(kGroup);
}

}  // namespace

void add_triton_flags(CLI::App& command, TritonFlags* flags) {
  for (const Flag& flag : kIgnored) add_ignored(command, flag, flags);
  for (const Flag& flag : kRefused) add_refused(command, flag);
  for (const Flag& flag : kTraces) {
    const std::string setting = flag.why;
    const auto add = [flags, setting](const std::string& value) {
      flags->traces.push_back(setting + value);
    };
    command.add_option_function<std::string>(flag.name, add, "--trace-config " + setting + "VALUE")
        ->group(kGroup);
  }
  const auto set_cache = [flags](const std::string& bytes) {
    flags->cache = "local,size=" + bytes;
  };
  command
      .add_option_function<std::string>("--response-cache-byte-size", set_cache,
                                        "--cache-config local,size=VALUE")
      ->group(kGroup);
}

}  // namespace tutti::cli
