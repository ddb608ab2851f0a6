// The options that `compile` and `run` share: how a model is read and how it is distributed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/shape_profile.h"
#include "compiler/compile.h"
#include "ops/lowering.h"
#include "plan/plan.h"

namespace CLI {
class App;
}

namespace tutti::cli {

// As given on the command line.
struct ModelOptions {
  std::string model;         // ONNX file
  std::string mesh;          // "cp=4"
  std::string strategy;      // "auto", "ulysses" or "cp=ulysses,cfg=cfg"
  int ranks = 0;             // for the strategy "auto"
  std::string memory_limit;  // "24G"; bytes that a rank may need
  std::string device_profile = "h200";
  std::vector<std::string> bind;       // NAME=FILE.npy
  std::vector<std::string> bind_dims;  // NAME=SIZE
  std::vector<std::string> shapes;     // NAME=1,16,h,w
  std::vector<std::string> shards;     // NAME:DIM=AXIS
  std::vector<std::string> invariant;  // input names
  std::vector<std::string> typical;    // NAME=SIZE
  ProfileOptions profile;
  std::string attention_exchange = "auto";
  std::string precision = "keep";     // or bf16, fp16
  std::string io_precision = "keep";  // of inputs and outputs
  int min_opset = 0;                  // 0: the reader's own
  bool use_annotations = true;
  bool hoist = true;
  bool fuse = true;
};

void add_model_options(CLI::App& command, ModelOptions* options);

// Operators and lowerings; graphs and plans point into it, so it outlives them.
struct Operators {
  Operators();
  OpRegistry ops;
  LoweringRegistry lowerings;
};

// Reads the model, compiles it and makes the plan; reports passes to `progress`.
struct PlannedModel {
  Plan plan;
  std::string explain;
};
using Progress = std::function<void(std::string_view step, double seconds)>;
Result<PlannedModel> plan_model(const ModelOptions& options, const Operators& operators,
                                const Progress& progress);

// "NAME=VALUE" cut at the first '='; the error names the option.
Result<std::pair<std::string, std::string>> split_assignment(std::string_view option,
                                                             const std::string& text);
// "24G", "500M", "64k" or "1000": powers of 1000, as in reports. Empty: 0.
Result<double> parse_bytes(std::string_view option, const std::string& text);
Result<SymbolMap> parse_sizes(std::string_view option, const std::vector<std::string>& texts);

// Prints "tutti COMMAND: message" to stderr and gives exit code 1.
int report_error(std::string_view command, const Status& status);

}  // namespace tutti::cli
