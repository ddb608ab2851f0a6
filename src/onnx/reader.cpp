#include "onnx/reader.h"

#include <google/protobuf/io/coded_stream.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "onnx.pb.h"
#include "onnx/check_text.h"
#include "onnx/external_data.h"
#include "onnx/function_table.h"
#include "onnx/graph_importer.h"

namespace tutti {
namespace {

Status parse_model(std::span<const std::byte> bytes, const ReadLimits& limits,
                   onnx::ModelProto* model) {
  if (bytes.empty()) return invalid_argument("the file is empty");
  if (bytes.size() > static_cast<std::uint64_t>(limits.max_file_bytes)) {
    return invalid_argument("the file has ", bytes.size(), " bytes, at most ",
                            limits.max_file_bytes, " are possible; keep weights as external data");
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return invalid_argument("the file is no ONNX model (truncated or damaged)");
  }
  if (!model->has_graph()) return invalid_argument("the file is no ONNX model: it has no graph");
  return check_text(*model);
}

Result<OpsetVersions> model_opsets(const onnx::ModelProto& model) {
  if (model.ir_version() < 3 || model.ir_version() > onnx::Version_MAX) {
    return invalid_argument("the model has IR version ", model.ir_version(),
                            "; supported are 3 to ", static_cast<int>(onnx::Version_MAX));
  }
  OpsetVersions opsets;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    const std::string domain(canonical_domain(import.domain()));
    const auto [known, inserted] = opsets.emplace(domain, import.version());
    if (!inserted && known->second != import.version()) {
      return invalid_argument("the model imports domain '", import.domain(), "' at opset ",
                              known->second, " and ", import.version());
    }
  }
  return opsets;
}

Result<std::unique_ptr<Graph>> read(std::span<const std::byte> bytes, const std::string& folder,
                                    const OpRegistry& registry, const LoweringRegistry& lowerings,
                                    const ReadOptions& options) {
  onnx::ModelProto model;
  TUTTI_RETURN_IF_ERROR(parse_model(bytes, options.limits, &model));
  TUTTI_ASSIGN_OR_RETURN(const OpsetVersions opsets, model_opsets(model));
  TUTTI_RETURN_IF_ERROR(check_onnx_opset(opsets, options.limits));
  TUTTI_ASSIGN_OR_RETURN(const FunctionTable functions, FunctionTable::create(model));
  if (options.annotations != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(*options.annotations, read_device_annotations(model));
  }
  ExternalFiles files(folder);
  auto graph = std::make_unique<Graph>();
  graph->name = model.graph().name();
  GraphImporter importer(graph.get(), registry, lowerings, options, functions, &files);
  TUTTI_RETURN_IF_ERROR(importer.import_main(model.graph(), opsets));
  graph->remove_dead();
  TUTTI_RETURN_IF_ERROR(graph->verify());
  return graph;
}

}  // namespace

Result<std::unique_ptr<Graph>> read_onnx(const std::string& path, const OpRegistry& registry,
                                         const LoweringRegistry& lowerings,
                                         const ReadOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  Result<std::unique_ptr<Graph>> graph = read(file->bytes(), folder, registry, lowerings, options);
  if (graph.ok()) return graph;
  return graph.status().with_context(str_cat("model '", path, "'"));
}

Result<std::unique_ptr<Graph>> read_onnx_bytes(std::span<const std::byte> bytes,
                                               const std::string& folder,
                                               const OpRegistry& registry,
                                               const LoweringRegistry& lowerings,
                                               const ReadOptions& options) {
  return read(bytes, folder, registry, lowerings, options);
}

}  // namespace tutti
