// ONNX files: read with external data, functions, branches and annotations, and what reads is
// compiled for two ranks.
#include <filesystem>
#include <fstream>

#include "backends/cpu/evaluator.h"
#include "base/hash.h"
#include "compiler/compile.h"
#include "fuzz/folder.h"
#include "fuzz/models.h"
#include "fuzz/surface.h"
#include "onnx.pb.h"
#include "onnx/annotation_constraints.h"
#include "onnx/reader.h"

namespace tutti::fuzz {
namespace {

struct Engine {
  Engine() {
    register_all_ops(&ops, &lowerings);
    std::ofstream(folder.path() / "weights.bin") << std::string(kWeightsBytes, 'w');
    std::filesystem::create_symlink("/etc/hostname", folder.path() / "link.bin");
  }
  OpRegistry ops;
  LoweringRegistry lowerings;
  Folder folder;
};

void distribute(std::unique_ptr<Graph> graph, const DeviceAnnotations& annotations,
                std::string_view mesh, const Engine& engine) {
  cpu::CpuEvaluator evaluator;
  CompileOptions options;
  options.registry = &engine.ops;
  options.evaluator = &evaluator;
  options.mesh = *Mesh::parse(mesh);
  if (mesh.empty()) {
    auto annotated = annotated_mesh(annotations);
    if (!check_result(annotated)) return;
    // Every rank of a mesh has its part in what the compiler counts.
    if (annotated->num_ranks() > 16) return;
    options.mesh = *std::move(annotated);
  }
  auto constraints = layout_constraints(annotations, options.mesh);
  if (!check_result(constraints)) return;
  options.constraints = *std::move(constraints);
  const auto compiled = compile(std::move(graph), options);
  if (check_result(compiled)) require(compiled->main->verify().ok(), "compiled graphs are valid");
}

void run(std::string_view input) {
  static const Engine engine;
  cpu::CpuEvaluator evaluator;
  DeviceAnnotations annotations;
  ReadOptions options;
  options.evaluator = &evaluator;
  options.annotations = &annotations;
  const auto bytes = std::as_bytes(std::span(input));
  auto graph =
      read_onnx_bytes(bytes, engine.folder.path().string(), engine.ops, engine.lowerings, options);
  if (!check_result(graph)) return;
  // One of them an input, so that many have their turn in the same time.
  static constexpr std::string_view kMeshes[] = {"cp=2", "tp=2", "", "cfg=2,cp=2"};
  distribute(*std::move(graph), annotations, kMeshes[hash_bytes(bytes).low % std::size(kMeshes)],
             engine);
}

const Registration registration({"onnx", run, sample_models,
                                 &onnx::ModelProto::default_instance()});

}  // namespace
}  // namespace tutti::fuzz
