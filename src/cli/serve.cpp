#include "cli/serve.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "backends/cpu/backend.h"
#include "cli/backend_options.h"
#include "cli/choice.h"
#include "cli/model_options.h"
#include "cli/triton_flags.h"
#include "server/plan_backend.h"
#include "server/server.h"
#include "tutti/version.h"

namespace tutti::cli {
namespace {

using server::ControlMode;

struct ServeCommand {
  server::ServerOptions server;
  server::GrpcOptions grpc;
  server::HttpOptions http;
  bool allows_grpc = true;
  bool allows_http = true;
  bool allows_metrics = true;
  server::HttpOptions metrics = {.address = "127.0.0.1", .port = 8002, .threads = 1};
  double metrics_interval_ms = 2000;
  double http_idle_secs = 300;
  double http_read_secs = 60;
  server::LogSettings log;
  std::vector<std::string> grpc_restrictions;
  std::vector<std::string> http_restrictions;
  std::vector<std::string> rate_limit_resources;
  std::string cache;
  std::vector<std::string> trace_configs;
  std::vector<std::string> metrics_configs;
  TritonFlags triton;
  int exit_timeout_secs = 30;

  std::string port_file;
  BackendOptions backend;
};

Status check_options(const ServeCommand& command) {
  const server::RepositoryOptions& repository = command.server.repository;
  if (repository.control_mode != ControlMode::kExplicit && !repository.startup_models.empty()) {
    return invalid_argument("--load-model '", repository.startup_models.front(),
                            "' needs --model-control-mode=explicit");
  }
  if (!command.allows_grpc && !command.allows_http) {
    return invalid_argument(
        "--allow-grpc=false and --allow-http=false leave no front end to serve on");
  }
  return {};
}

// Whoever waits for the file finds it whole.
Status write_port_file(const std::string& path, int port) {
  if (path.empty()) return {};
  const std::string temporary = path + ".tmp";
  std::ofstream(temporary) << port << '\n';
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return invalid_argument("--port-file '", path, "' cannot be written");
  }
  return {};
}

int served_port(const server::Server& running) {
  return running.grpc() != nullptr ? running.grpc()->port() : running.http()->port();
}

// Must be called before any thread starts, so that all inherit the mask.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Drains on a thread of its own, so that a model that never comes back cannot keep the process.
int stop(server::Server& running, int timeout_secs, const server::Log& log) {
  const std::chrono::seconds time(timeout_secs);
  std::packaged_task<void()> drain([&running, time] { running.stop(time); });
  std::future<void> drained = drain.get_future();
  std::thread thread(std::move(drain));
  // Time to answer what the deadline has cancelled.
  if (drained.wait_for(time + std::chrono::seconds(5)) != std::future_status::ready) {
    log->critical("a request still runs after --exit-timeout-secs={}, leaving it", timeout_secs);
    log->flush();
    std::_Exit(1);
  }
  thread.join();
  return 0;
}

Status add_resources(ServeCommand& command) {
  for (const std::string& resource : command.rate_limit_resources) {
    const Status status = command.server.rate_limit.add_resource(resource);
    if (!status.ok()) return status.with_context("--rate-limit-resource");
  }
  const bool is_old_flag = command.cache.empty();
  const std::string& cache = is_old_flag ? command.triton.cache : command.cache;
  if (cache.empty()) return {};
  auto bytes = server::parse_cache_config(cache);
  if (!bytes.ok()) {
    return bytes.status().with_context(is_old_flag ? "--response-cache-byte-size"
                                                   : "--cache-config");
  }
  command.server.cache_bytes = *bytes;
  return {};
}

Status add_traces(ServeCommand& command) {
  std::vector<std::string> configs = command.triton.traces;
  configs.insert(configs.end(), command.trace_configs.begin(), command.trace_configs.end());
  auto options = server::parse_trace_options(configs);
  if (!options.ok()) return options.status().with_context("--trace-config");
  command.server.service.trace = *std::move(options);
  return {};
}

Status add_metrics(ServeCommand& command) {
  auto options = server::parse_metrics_config(command.metrics_configs);
  if (!options.ok()) return options.status().with_context("--metrics-config");
  command.server.metrics_content.latencies = *std::move(options);
  return {};
}

Status add_restrictions(const char* flag, const std::vector<std::string>& values,
                        server::Restrictions* restrictions) {
  for (const std::string& value : values) {
    const Status status = restrictions->add(value);
    if (!status.ok()) return status.with_context(str_cat(flag, " '", value, "'"));
  }
  return {};
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void set_http_times(ServeCommand* command) {
  server::HttpLimits& limits = command->http.limits;
  limits.idle_time = milliseconds(command->http_idle_secs);
  limits.stall_time = milliseconds(command->http_read_secs);
  limits.head_time = std::min(limits.head_time, limits.stall_time);
}

int run_serve(ServeCommand& command) {
  Status checked = check_options(command);
  if (checked.ok()) checked = add_resources(command);
  if (checked.ok()) checked = add_traces(command);
  if (checked.ok()) checked = add_metrics(command);
  if (checked.ok()) {
    checked = add_restrictions("--http-restricted-api", command.http_restrictions,
                               &command.server.http_api.restrictions);
  }
  if (checked.ok()) {
    checked = add_restrictions("--grpc-restricted-protocol", command.grpc_restrictions,
                               &command.grpc.restrictions);
  }
  if (command.grpc.tls.is_mutual) command.grpc.tls.is_used = true;
  if (!checked.ok()) {
    report_error("serve", checked);
    return 2;
  }
  set_http_times(&command);
  const sigset_t signals = block_stop_signals();
  const auto made_log = server::make_log(command.log);
  if (!made_log.ok()) {
    report_error("serve", made_log.status());
    return 2;
  }
  const server::Log log = *made_log;
  const Operators operators;
  const std::unique_ptr<Backend> cpu = cpu::make_cpu_backend();
  auto chosen = choose_backend(command.backend);
  if (!chosen.ok()) return report_error("serve", chosen.status());
  const bool has_gpu = chosen->backend->name() != cpu->name();
  Backend* gpu = has_gpu ? chosen->backend.get() : nullptr;
  std::vector<std::unique_ptr<server::ModelBackend>> backends;
  backends.push_back(std::make_unique<server::PlanBackend>(operators.ops, *cpu, gpu));

  log->info("tutti {} with backend {}", TUTTI_VERSION, has_gpu ? gpu->name() : cpu->name());
  if (has_gpu) log->info("{}", gpu->describe());
  for (const auto& [flag, why] : command.triton.ignored) {
    log->warn("{} has no effect: {}", flag, why);
  }
  if (!chosen->no_gpu.empty()) log->info("{}; serving on CPU", chosen->no_gpu);
  server::ServerOptions options = command.server;
  options.grpc.reset();
  if (command.allows_grpc) options.grpc = command.grpc;
  if (command.allows_http) options.http = command.http;
  options.service.gpu = gpu;
  if (command.allows_metrics) options.metrics = command.metrics;
  options.metrics_content.interval =
      std::chrono::milliseconds(static_cast<std::int64_t>(command.metrics_interval_ms));
  auto running = server::Server::start(std::move(options), std::move(backends), log);
  if (!running.ok()) return report_error("serve", running.status());
  const Status written = write_port_file(command.port_file, served_port(**running));
  if (!written.ok()) return report_error("serve", written);

  int signal = 0;
  sigwait(&signals, &signal);
  log->info("signal {}: stopping, in-flight requests have {} s", signal, command.exit_timeout_secs);
  const int code = stop(**running, command.exit_timeout_secs, log);
  log->info("stopped");
  return code;
}

void add_scheduling_options(CLI::App& command, ServeCommand& options) {
  const std::map<std::string, bool> modes = {{"off", false}, {"execution_count", true}};
  add_choice(command, "--rate-limit", options.server.rate_limit.counts_executions, modes,
             "execution_count lets instances take the resources of their rate_limiter to run");
  command.add_option("--cache-config", options.cache,
                     "local,size=BYTES: memory for answers of models with response_cache");
  command
      .add_option("--rate-limit-resource", options.rate_limit_resources,
                  "NAME:COUNT[:DEVICE]: how much of a resource there is; may be repeated")
      ->allow_extra_args(false);
}

void add_http_options(CLI::App& command, ServeCommand& options) {
  server::HttpOptions& http = options.http;
  command.add_option("--allow-http", options.allows_http, "Serve over HTTP")->capture_default_str();
  command.add_option("--http-address", http.address, "Address to listen on")->capture_default_str();
  command.add_option("--http-port", http.port, "Port to listen on, 0 for any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--reuse-http-port", http.reuses_port, "Let several servers share the port")
      ->capture_default_str();
  command.add_option("--http-thread-count", http.threads, "Threads that serve all connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--http-max-input-size", http.limits.max_body_bytes,
                  "Largest request body in bytes, after decompression too")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 48))
      ->capture_default_str();
  command.add_option("--http-header-forward-pattern",
                     options.server.http_api.header_forward_pattern,
                     "Headers whose names hold this expression become request parameters");
  command
      .add_option("--http-idle-timeout-secs", options.http_idle_secs,
                  "Close a connection that makes no request for so long")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command
      .add_option("--http-read-timeout-secs", options.http_read_secs,
                  "Close a connection whose client stalls within a request or answer")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command
      .add_option("--http-restricted-api", options.http_restrictions,
                  "GROUP[,GROUP...]:HEADER=VALUE: these calls need that header")
      ->allow_extra_args(false);
}

void add_grpc_options(CLI::App& command, ServeCommand& options) {
  server::GrpcOptions& grpc = options.grpc;
  command.add_option("--reuse-grpc-port", grpc.reuses_port, "Let several servers share the port")
      ->capture_default_str();
  command.add_option("--grpc-use-ssl", grpc.tls.is_used, "Encrypt")->capture_default_str();
  command
      .add_option("--grpc-use-ssl-mutual", grpc.tls.is_mutual,
                  "Encrypt, and ask clients for a certificate")
      ->capture_default_str();
  command.add_option("--grpc-server-cert", grpc.tls.server_cert, "The server's certificate, PEM");
  command.add_option("--grpc-server-key", grpc.tls.server_key, "The server's key, PEM");
  command.add_option("--grpc-root-cert", grpc.tls.root_cert,
                     "Who signs clients' certificates, PEM");
  const std::map<std::string, grpc_compression_level> levels = {{"none", GRPC_COMPRESS_LEVEL_NONE},
                                                                {"low", GRPC_COMPRESS_LEVEL_LOW},
                                                                {"medium", GRPC_COMPRESS_LEVEL_MED},
                                                                {"high", GRPC_COMPRESS_LEVEL_HIGH}};
  add_choice(command, "--grpc-infer-response-compression-level", grpc.compression, levels,
             "As far as the client takes it");
  command
      .add_option("--grpc-restricted-protocol", options.grpc_restrictions,
                  "GROUP[,GROUP...]:HEADER=VALUE: these calls need triton-grpc-protocol-HEADER")
      ->allow_extra_args(false);
  struct Argument {
    const char* flag;
    const char* name;
    const char* help;
  };
  constexpr Argument kArguments[] = {
      {"--grpc-keepalive-time", GRPC_ARG_KEEPALIVE_TIME_MS, "ms between pings"},
      {"--grpc-keepalive-timeout", GRPC_ARG_KEEPALIVE_TIMEOUT_MS, "ms to wait for a ping's answer"},
      {"--grpc-keepalive-permit-without-calls", GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS,
       "1: ping without calls too"},
      {"--grpc-http2-max-pings-without-data", GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA,
       "pings without data between them, 0 for any number"},
      {"--grpc-http2-min-recv-ping-interval-without-data",
       GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, "ms expected between client's pings"},
      {"--grpc-http2-max-ping-strikes", GRPC_ARG_HTTP2_MAX_PING_STRIKES,
       "bad pings before the connection ends, 0 for any number"},
      {"--grpc-max-connection-age", GRPC_ARG_MAX_CONNECTION_AGE_MS,
       "ms that a connection may last"},
      {"--grpc-max-connection-age-grace", GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
       "ms for its calls after that"},
  };
  for (const Argument& argument : kArguments) {
    command.add_option_function<int>(
        argument.flag,
        [&grpc, name = argument.name](int value) { grpc.channel_arguments[name] = value; },
        argument.help);
  }
}

void add_metrics_options(CLI::App& command, ServeCommand& options) {
  command.add_option("--allow-metrics", options.allows_metrics, "Serve metrics to Prometheus")
      ->capture_default_str();
  command.add_option("--metrics-address", options.metrics.address, "Address to listen on")
      ->capture_default_str();
  command
      .add_option("--metrics-port", options.metrics.port, "Port to listen on, 0 for any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--metrics-interval-ms", options.metrics_interval_ms,
                  "Between two looks at the machine's load")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  server::MetricsOptions& content = options.server.metrics_content;
  command.add_option("--allow-cpu-metrics", content.has_cpu, "The machine's load among them")
      ->capture_default_str();
  command.add_option("--allow-gpu-metrics", content.has_gpus, "The GPUs' load among them")
      ->capture_default_str();
  command
      .add_option("--metrics-config", options.metrics_configs,
                  "SETTING=VALUE: counter_latencies, summary_latencies, summary_quantiles, "
                  "histogram_latencies; may be repeated")
      ->allow_extra_args(false);
}

void add_log_options(CLI::App& command, server::LogSettings& log) {
  command.add_option("--log-verbose", log.verbose_level, "1: debug messages too")
      ->capture_default_str();
  command.add_option("--log-info", log.info, "Log information")->capture_default_str();
  command.add_option("--log-warning", log.warning, "Log warnings")->capture_default_str();
  command.add_option("--log-error", log.error, "Log errors")->capture_default_str();
  command.add_option("--log-format", log.format, "default, ISO8601 or json")->capture_default_str();
  command.add_option("--log-file", log.file, "Write there instead of stderr");
}

}  // namespace

std::function<int()> add_serve(CLI::App& command) {
  auto options = std::make_shared<ServeCommand>();
  server::ServerOptions& server = options->server;
  command
      .add_option("--model-repository,--model-store", server.repository.paths,
                  "Folder of model folders; may be given several times")
      ->required()
      ->allow_extra_args(false);
  const std::map<std::string, ControlMode> modes = {{"none", ControlMode::kNone},
                                                    {"poll", ControlMode::kPoll},
                                                    {"explicit", ControlMode::kExplicit}};
  add_choice(command, "--model-control-mode", server.repository.control_mode, modes,
             "Load everything at the start, follow what changes on disk too, or load on request");
  command
      .add_option("--repository-poll-secs", server.poll_secs,
                  "poll mode: seconds between two looks at the repositories")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command
      .add_option("--model-load-thread-count", server.repository.load_threads,
                  "Models that are loaded at the same time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      .add_option("--load-model", server.repository.startup_models,
                  "Model to load at the start in explicit mode, * for all; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--model-config-name", server.repository.config_name,
                     "Use configs/NAME.pbtxt of a model's folder where it is there");
  command.add_option("--id", server.service.name, "The server's name in its metadata")
      ->capture_default_str();
  command.add_option("--allow-grpc", options->allows_grpc, "Serve over gRPC")
      ->capture_default_str();
  command.add_option("--grpc-address", options->grpc.address, "Address to listen on")
      ->capture_default_str();
  command.add_option("--grpc-port", options->grpc.port, "Port to listen on, 0 for any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  add_http_options(command, *options);
  command.add_option(
      "--port-file", options->port_file,
      "Write the gRPC port to this file when the server is up (HTTP's without gRPC)");
  command
      .add_option("--allow-client-shm", server.service.allows_client_shared_memory,
                  "Let clients register shared memory")
      ->capture_default_str();
  command
      .add_option("--strict-readiness", server.service.is_readiness_strict,
                  "Ready only while every model that was asked for is")
      ->capture_default_str();
  command
      .add_option("--exit-on-error", server.exits_on_error,
                  "Exit when a model fails to load at the start")
      ->capture_default_str();
  command
      .add_option("--exit-timeout-secs", options->exit_timeout_secs,
                  "Time for in-flight requests after SIGTERM or SIGINT")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  add_scheduling_options(command, *options);
  add_backend_options(command, &options->backend);
  add_grpc_options(command, *options);
  add_metrics_options(command, *options);
  command
      .add_option("--trace-config", options->trace_configs,
                  "[MODE,]SETTING=VALUE: level, rate, count, mode; triton,file; "
                  "triton,log-frequency; opentelemetry,url and others; may be repeated")
      ->allow_extra_args(false);
  add_log_options(command, options->log);
  add_triton_flags(command, &options->triton);
  return [options] { return run_serve(*options); };
}

}  // namespace tutti::cli
