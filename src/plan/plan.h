// A compiled, distributed model: what a version folder of the model repository holds.
//
// On disk it is two files. `model.plan` is an ONNX model (any viewer opens it) whose nodes are core
// operators; `model.plan.data` holds the weights, page-aligned, and is memory-mapped. docs/plan.md
// describes the format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/op_def.h"
#include "plan/artifacts.h"
#include "tutti/version.h"

namespace tutti {

// A model input or output as callers see it: whole, whatever the mesh.
struct PlanTensor {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  bool operator==(const PlanTensor&) const = default;
};

// Sizes that a symbol may take. `opt` is what choices were made for.
struct DimRange {
  std::int64_t min = 1;
  std::int64_t opt = 1;
  std::int64_t max = 1;
  bool operator==(const DimRange&) const = default;
};

// One exchange of the graphs, for reports.
struct PlanExchange {
  std::string kind;  // "AllToAll"
  std::string axis;  // of the mesh
  std::string name;  // of the node it serves
  Dim bytes;         // that a rank sends to others; over sizes and rank symbols
  bool in_prologue = false;
  bool operator==(const PlanExchange&) const = default;
};

struct Plan {
  Mesh mesh;
  // Shapes inside the graphs are those of one rank, over the mesh's rank symbols. Inputs are whole
  // on every rank (ShardSlice nodes cut them), outputs are whole on every rank. Each input of
  // `main` is one of `inputs` or an output of `prologue`, by name; each input of `prologue` is one
  // of `inputs`.
  std::unique_ptr<Graph> main;
  std::unique_ptr<Graph> prologue;  // null: nothing was hoisted
  std::vector<PlanTensor> inputs;   // in the order of the source model
  std::vector<PlanTensor> outputs;  // as many as main's, in the same order
  std::vector<std::string> invariant_inputs;
  std::map<std::string, DimRange> dims;  // by symbol
  std::vector<PlanExchange> exchanges;
  // Of values of both graphs, for the annotations that writing puts at every node. Reading leaves
  // it empty: what runs depends on shapes and exchanges alone.
  LayoutTable layouts;
  std::vector<Artifact> artifacts;  // made for certain machines; others do without
  std::string strategy;
  std::string source_hash;
  std::string compiler_version = TUTTI_VERSION;
  std::int64_t data_bytes = 0;  // size of the data file; filled by reading
};

inline constexpr int kPlanFormat = 1;

struct PlanReadOptions {
  // Reads all weights once to compare them with their digest. Without it they are only mapped.
  bool verify_data = true;
  std::int64_t max_file_bytes = (std::int64_t{1} << 31) - 1;
  std::int64_t max_nodes = std::int64_t{1} << 20;
};

// Writes `path` and `path`.data. Each appears whole or not at all, the data first. Errors: a plan
// that would not read back (an operand or a type that disagrees with inference), files that cannot
// be written.
Status write_plan(const Plan& plan, const std::string& path);

// Weights are views of the mapped data file. `registry` must outlive the plan. Errors, all of which
// name the file: damaged or truncated files (each byte is under a digest), another format or
// compiler version, sizes past the files or past all reason, operators or attributes that this
// compiler does not know, types that disagree with inference.
Result<Plan> read_plan(const std::string& path, const OpRegistry& registry,
                       const PlanReadOptions& options = {});

// Inputs, outputs and the two graphs of a plan agree as `Plan` says.
Status check_plan(const Plan& plan);

}  // namespace tutti
