#include "cli/run.h"

#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/given_inputs.h"
#include "cli/load_plan.h"
#include "onnx/numpy_io.h"

namespace tutti::cli {
namespace {

struct RunCommand {
  ModelOptions model;
  BackendOptions backend;
  std::vector<std::string> inputs;  // NAME=FILE.npy
  std::string output_dir = ".";
  int threads = 0;
};

Result<std::vector<Tensor>> read_inputs(const RunCommand& command, const Plan& plan) {
  TUTTI_ASSIGN_OR_RETURN(GivenInputs given, read_given_inputs(command.inputs, plan));
  std::vector<Tensor> ordered;
  for (const PlanTensor& input : plan.inputs) {
    const auto it = given.find(input.name);
    if (it == given.end()) {
      return invalid_argument("input '", input.name, "' is missing; give --input ", input.name,
                              "=FILE.npy");
    }
    ordered.push_back(std::move(it->second));
  }
  return ordered;
}

Status run_once(const RunCommand& command) {
  TUTTI_ASSIGN_OR_RETURN(const LoadedPlan loaded,
                         load_plan(command.model, command.backend, command.threads));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, read_inputs(command, *loaded.plan));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, loaded.group->run(inputs, {}));
  const std::filesystem::path folder = command.output_dir;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid_argument("--output-dir '", folder.string(), "': ", error.message());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = (folder / str_cat(i, ".npy")).string();
    TUTTI_RETURN_IF_ERROR(write_npy(outputs[i], path));
    const TensorDesc& desc = outputs[i].desc();
    std::printf("%s: %s%s -> %s\n", loaded.plan->outputs[i].name.c_str(),
                std::string(dtype_name(desc.dtype)).c_str(), str_cat(desc.dims).c_str(),
                path.c_str());
  }
  return {};
}

}  // namespace

std::function<int()> add_run(CLI::App& command) {
  auto options = std::make_shared<RunCommand>();
  add_model_options(command, &options->model);
  add_backend_options(command, &options->backend);
  command.add_option("--input", options->inputs, "NAME=FILE.npy, once for each input");
  command.add_option("--output-dir", options->output_dir, "Where 0.npy, 1.npy, ... go")
      ->capture_default_str();
  command.add_option("--threads", options->threads, "Host threads of all ranks together");
  return [options] {
    const Status status = run_once(*options);
    return status.ok() ? 0 : report_error("run", status);
  };
}

}  // namespace tutti::cli
