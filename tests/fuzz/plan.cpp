// Plan files: a model with our operators, behind a seal that is right whatever the model says. What
// reads has its memory planned at the sizes that it names.
#include "plan/plan.h"

#include <charconv>
#include <fstream>

#include "backends/cpu/evaluator.h"
#include "compiler/compile.h"
#include "fuzz/folder.h"
#include "fuzz/models.h"
#include "fuzz/surface.h"
#include "onnx.pb.h"
#include "onnx/reader.h"
#include "plan/plan_seal.h"

namespace tutti::fuzz {
namespace {

struct Operators {
  Operators() { register_all_ops(&ops, &lowerings); }
  OpRegistry ops;
  LoweringRegistry lowerings;
};

const Operators& operators() {
  static const Operators all;
  return all;
}

// As many bytes as the plan says that its data file has, where that is little; content does not
// matter, since its digest is left aside.
void write_data(std::string_view input, const std::filesystem::path& path) {
  onnx::ModelProto model;
  if (!model.ParsePartialFromArray(input.data(), static_cast<int>(input.size()))) return;
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() != "tutti.data_bytes") continue;
    const std::string& text = entry.value();
    std::uintmax_t bytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), bytes);
    std::ofstream(path, std::ios::binary).flush();
    std::error_code ignored;
    if (bytes <= (1U << 20)) std::filesystem::resize_file(path, bytes, ignored);
  }
}

void run(std::string_view input) {
  static const Folder folder;
  const std::filesystem::path path = folder.path() / "model.plan";
  write_data(input, folder.path() / "model.plan.data");
  std::string sealed(input);
  seal(&sealed);
  std::ofstream(path, std::ios::binary) << sealed;
  PlanReadOptions options;
  options.verify_data = false;
  const auto plan = read_plan(path.string(), operators().ops, options);
  if (!check_result(plan)) return;
  require(check_plan(*plan).ok(), "a plan that reads is whole");
  check_error(replace_artifacts(path.string(), plan->artifacts));
  const std::string again = (folder.path() / "again.plan").string();
  check_error(write_plan(*plan, again));
}

// The sample models, compiled for two ranks.
std::vector<std::string> seeds() {
  const Folder folder;
  const std::string path = (folder.path() / "model.plan").string();
  std::ofstream(folder.path() / "weights.bin") << std::string(kWeightsBytes, 'w');
  cpu::CpuEvaluator evaluator;
  std::vector<std::string> plans;
  for (const std::string& bytes : sample_models()) {
    ReadOptions read;
    read.evaluator = &evaluator;
    auto graph = read_onnx_bytes(std::as_bytes(std::span(bytes)), folder.path().string(),
                                 operators().ops, operators().lowerings, read);
    require(graph.ok(), graph.status().message());
    CompileOptions options;
    options.registry = &operators().ops;
    options.evaluator = &evaluator;
    options.mesh = *Mesh::parse("cp=2");
    auto compiled = compile(*std::move(graph), options);
    require(compiled.ok(), compiled.status().message());
    Plan plan;
    plan.mesh = compiled->mesh;
    plan.main = std::move(compiled->main);
    plan.prologue = std::move(compiled->prologue);
    for (const auto& [name, type] : compiled->inputs) {
      plan.inputs.push_back({name, type.dtype, type.shape});
    }
    for (const auto& [name, type] : compiled->outputs) {
      plan.outputs.push_back({name, type.dtype, type.shape});
    }
    plan.invariant_inputs = std::move(compiled->invariant_inputs);
    plan.layouts = std::move(compiled->layouts);
    plan.dims = {{"t", {1, 8, 64}}};
    plan.artifacts = {{"cuda", "cubin", "sm_90", "NVRTC 13.0", "row", {1, 2}, "code"}};
    for (const ExchangeInfo& exchange : compiled->exchanges) {
      plan.exchanges.push_back(
          {exchange.kind, exchange.axis, exchange.node, exchange.sent_bytes, false});
    }
    const Status written = write_plan(plan, path);
    require(written.ok(), written.message());
    std::ifstream file(path, std::ios::binary);
    const std::string sealed{std::istreambuf_iterator<char>(file), {}};
    const auto body = unseal(std::as_bytes(std::span(sealed)));
    require(body.ok(), "what was sealed is unsealed");
    plans.emplace_back(reinterpret_cast<const char*>(body->data()), body->size());
  }
  return plans;
}

const Registration registration({"plan", run, seeds, &onnx::ModelProto::default_instance()});

}  // namespace
}  // namespace tutti::fuzz
