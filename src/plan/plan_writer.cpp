#include <filesystem>

#include "base/atomic_file.h"
#include "onnx.pb.h"
#include "onnx/reader.h"
#include "plan/data_writer.h"
#include "plan/graph_proto.h"
#include "plan/plan.h"
#include "plan/plan_metadata.h"
#include "plan/plan_names.h"
#include "plan/plan_seal.h"
#include "plan/sharding_to_proto.h"

namespace tutti {
namespace {

// The hoisted graph stands as the first node; what it makes are values of the main graph.
Status write_prologue(const Graph& prologue, const GraphTarget& target, onnx::GraphProto* main) {
  onnx::NodeProto node;
  node.set_op_type(kPrologueType);
  node.set_domain(kTuttiDomain);
  node.set_name("prologue");
  for (const Value* input : prologue.inputs()) node.add_input(input->name());
  for (std::size_t i = 0; i < prologue.outputs().size(); ++i) {
    const std::string& name = prologue.output_names[i];
    node.add_output(name);
    value_to_proto(name, prologue.outputs()[i]->type(), main->add_value_info());
  }
  onnx::AttributeProto* body = node.add_attribute();
  body->set_name(kPrologueBody);
  body->set_type(onnx::AttributeProto::GRAPH);
  TUTTI_RETURN_IF_ERROR(graph_to_proto(prologue, target, body->mutable_g()));
  // Nodes have an order: append, then turn the last into the first.
  *main->add_node() = std::move(node);
  auto* nodes = main->mutable_node();
  for (int i = nodes->size() - 1; i > 0; --i) nodes->SwapElements(i, i - 1);
  return Status();
}

// Inputs of the file are those of the model, all of them, in its order.
void write_inputs(const Plan& plan, onnx::GraphProto* graph) {
  graph->clear_input();
  for (const PlanTensor& tensor : plan.inputs) {
    value_to_proto(tensor.name, {tensor.dtype, tensor.shape}, graph->add_input());
  }
}

void write_header(onnx::ModelProto* model) {
  model->set_ir_version(onnx::IR_VERSION);
  model->set_producer_name("tutti");
  model->set_producer_version(TUTTI_VERSION);
  onnx::OperatorSetIdProto* onnx_opset = model->add_opset_import();
  onnx_opset->set_domain("");
  onnx_opset->set_version(kMaxOpset);
  onnx::OperatorSetIdProto* own_opset = model->add_opset_import();
  own_opset->set_domain(kTuttiDomain);
  own_opset->set_version(kPlanFormat);
}

Status write(const Plan& plan, const std::string& path) {
  TUTTI_RETURN_IF_ERROR(check_plan(plan));
  const std::string data_name = std::filesystem::path(path).filename().string() + ".data";
  DataWriter data(path + ".data");
  onnx::ModelProto model;
  write_header(&model);
  mesh_to_proto(plan.mesh, &model);
  onnx::GraphProto* graph = model.mutable_graph();
  const GraphTarget target{&data, data_name, plan.mesh, plan.layouts};
  TUTTI_RETURN_IF_ERROR(graph_to_proto(*plan.main, target, graph));
  write_inputs(plan, graph);
  if (plan.prologue != nullptr) {
    const Status status = write_prologue(*plan.prologue, target, graph);
    if (!status.ok()) return status.with_context("prologue");
  }
  metadata_to_proto(plan, {data.size(), data.digest().to_hex()}, &model);

  const std::string artifacts = write_artifacts(plan.artifacts);
  constexpr std::size_t kLimit = (std::size_t{1} << 31) - 1024;
  if (model.ByteSizeLong() + artifacts.size() > kLimit) {
    return invalid_argument("the graph takes ", model.ByteSizeLong(), " bytes and artifacts ",
                            artifacts.size(), ", at most ", kLimit, " are possible");
  }
  std::string bytes = model.SerializeAsString() + artifacts;
  seal(&bytes);
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  TUTTI_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(bytes))));
  // All that may fail for lack of space comes before the first file is replaced.
  TUTTI_RETURN_IF_ERROR(data.flush());
  TUTTI_RETURN_IF_ERROR(file->flush());
  TUTTI_RETURN_IF_ERROR(data.commit());
  return file->commit();
}

}  // namespace

Status write_plan(const Plan& plan, const std::string& path) {
  return write(plan, path).with_context(str_cat("plan '", path, "'"));
}

}  // namespace tutti
