#include "cli/serve.h"

#include <unistd.h>

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
#include "cli/model_options.h"
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
  std::vector<std::string> http_restrictions;
  std::vector<std::string> rate_limit_resources;
  std::string cache;
  int exit_timeout_secs = 30;
  int log_verbose = 0;
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
  if (command.cache.empty()) return {};
  auto bytes = server::parse_cache_config(command.cache);
  if (!bytes.ok()) return bytes.status().with_context("--cache-config");
  command.server.cache_bytes = *bytes;
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

int run_serve(ServeCommand& command) {
  Status checked = check_options(command);
  if (checked.ok()) checked = add_resources(command);
  if (checked.ok()) {
    checked = add_restrictions("--http-restricted-api", command.http_restrictions,
                               &command.server.http_api.restrictions);
  }
  if (!checked.ok()) {
    report_error("serve", checked);
    return 2;
  }
  const sigset_t signals = block_stop_signals();
  const server::Log log = server::make_log(command.log_verbose);
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
  if (!chosen->no_gpu.empty()) log->info("{}; serving on CPU", chosen->no_gpu);
  server::ServerOptions options = command.server;
  options.grpc.reset();
  if (command.allows_grpc) options.grpc = command.grpc;
  if (command.allows_http) options.http = command.http;
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
  command
      .add_option("--rate-limit", options.server.rate_limit.counts_executions,
                  "execution_count: instances take the resources of their rate_limiter to run")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case))
      ->default_str("off");
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
      .add_option("--http-restricted-api", options.http_restrictions,
                  "GROUP[,GROUP...]:HEADER=VALUE: these calls need that header")
      ->allow_extra_args(false);
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
  command
      .add_option("--model-control-mode", server.repository.control_mode,
                  "none: load everything at the start; poll: and follow what changes on disk; "
                  "explicit: load and unload on request")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case))
      ->default_str("none");
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
  command.add_option("--log-verbose", options->log_verbose, "1: debug messages too")
      ->capture_default_str();
  return [options] { return run_serve(*options); };
}

}  // namespace tutti::cli
