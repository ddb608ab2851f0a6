#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "onnx.pb.h"
#include "onnx/check_text.h"
#include "onnx/external_data.h"
#include "plan/graph_proto.h"
#include "plan/plan.h"
#include "plan/plan_metadata.h"
#include "plan/plan_names.h"
#include "plan/plan_seal.h"

namespace tutti {
namespace {

Status parse_model(std::span<const std::byte> bytes, onnx::ModelProto* model) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  if (model->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage() &&
      model->has_graph()) {
    return check_text(*model);
  }
  return invalid_argument("is no ONNX model");
}

// Size and digest of the data file are what the plan says.
Status check_data(const DataFileInfo& expected, const std::string& name, ExternalFiles* files,
                  bool verify_content) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> file, files->open(name));
  if (file->bytes().size() != expected.bytes) {
    return invalid_argument("data file '", name, "' has ", file->bytes().size(),
                            " bytes, the plan was written with ", expected.bytes);
  }
  if (verify_content && hash_bytes(file->bytes()).to_hex() != expected.digest) {
    return invalid_argument("data file '", name,
                            "' is damaged or belongs to another plan: its "
                            "content does not match its digest");
  }
  return Status();
}

// Takes the node that stands for the hoisted graph out of the main graph; null when there is none.
std::unique_ptr<onnx::NodeProto> extract_prologue(onnx::GraphProto* graph) {
  auto* nodes = graph->mutable_node();
  if (nodes->empty() || nodes->Get(0).op_type() != kPrologueType ||
      nodes->Get(0).domain() != kTuttiDomain) {
    return nullptr;
  }
  auto node = std::make_unique<onnx::NodeProto>(std::move(*nodes->Mutable(0)));
  nodes->DeleteSubrange(0, 1);
  return node;
}

Result<std::unique_ptr<Graph>> read_prologue(const onnx::NodeProto& node, GraphSource* source) {
  if (node.attribute_size() != 1 || node.attribute(0).name() != kPrologueBody ||
      !node.attribute(0).has_g()) {
    return invalid_argument("expected one attribute '", kPrologueBody, "'");
  }
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                         graph_from_proto(node.attribute(0).g(), source));
  const auto& names = graph->output_names;
  bool agrees = std::equal(names.begin(), names.end(), node.output().begin(), node.output().end());
  agrees =
      agrees && std::equal(graph->inputs().begin(), graph->inputs().end(), node.input().begin(),
                           node.input().end(), [](const Value* value, const std::string& name) {
                             return value->name() == name;
                           });
  if (!agrees) return invalid_argument("the node and its body differ in inputs or outputs");
  return graph;
}

// The main graph's own inputs, instead of the file's, which are the model's.
Status restore_inputs(const std::vector<std::string>& names, onnx::GraphProto* graph) {
  std::vector<onnx::ValueInfoProto> inputs;
  for (const std::string& name : names) {
    const onnx::ValueInfoProto* found = nullptr;
    for (const auto* list : {&graph->input(), &graph->value_info()}) {
      for (const onnx::ValueInfoProto& info : *list) {
        if (found == nullptr && info.name() == name) found = &info;
      }
    }
    if (found == nullptr)
      return invalid_argument("input '", name, "' of the main graph is missing");
    inputs.push_back(*found);
  }
  graph->clear_input();
  for (onnx::ValueInfoProto& input : inputs) *graph->add_input() = std::move(input);
  return Status();
}

Result<Plan> read(const std::string& path, const OpRegistry& registry,
                  const PlanReadOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  if (file->bytes().size() > static_cast<std::uint64_t>(options.max_file_bytes)) {
    return invalid_argument("has ", file->bytes().size(), " bytes, at most ",
                            options.max_file_bytes, " are possible");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::span<const std::byte> body, unseal(file->bytes()));
  onnx::ModelProto model;
  TUTTI_RETURN_IF_ERROR(parse_model(body, &model));

  Plan plan;
  TUTTI_ASSIGN_OR_RETURN(plan.artifacts, read_artifacts(body));
  DataFileInfo data;
  std::vector<std::string> main_inputs;
  TUTTI_RETURN_IF_ERROR(metadata_from_proto(model, &plan, &data, &main_inputs));

  const std::filesystem::path location(path);
  const std::string folder = location.parent_path().string();
  ExternalFiles files(folder.empty() ? "." : folder);
  GraphSource source{registry, &files, "", options.max_nodes};
  if (data.bytes > 0) {
    source.data_name = location.filename().string() + ".data";
    TUTTI_RETURN_IF_ERROR(check_data(data, source.data_name, &files, options.verify_data));
  }

  onnx::GraphProto* graph = model.mutable_graph();
  for (const onnx::ValueInfoProto& input : graph->input()) {
    TUTTI_ASSIGN_OR_RETURN(TensorType type, type_from_value(input));
    plan.inputs.push_back({input.name(), type.dtype, std::move(type.shape)});
  }
  if (const std::unique_ptr<onnx::NodeProto> node = extract_prologue(graph)) {
    Result<std::unique_ptr<Graph>> prologue = read_prologue(*node, &source);
    if (!prologue.ok()) return prologue.status().with_context("prologue");
    plan.prologue = *std::move(prologue);
  }
  TUTTI_RETURN_IF_ERROR(restore_inputs(main_inputs, graph));
  TUTTI_ASSIGN_OR_RETURN(plan.main, graph_from_proto(*graph, &source));
  TUTTI_RETURN_IF_ERROR(check_plan(plan));
  return plan;
}

}  // namespace

Result<Plan> read_plan(const std::string& path, const OpRegistry& registry,
                       const PlanReadOptions& options) {
  Result<Plan> plan = read(path, registry, options);
  if (plan.ok()) return plan;
  return plan.status().with_context(str_cat("plan '", path, "'"));
}

}  // namespace tutti
