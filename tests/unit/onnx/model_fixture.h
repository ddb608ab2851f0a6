// Small ONNX models made in C++, and toy operators to lower them to.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "graph/printer.h"
#include "onnx.pb.h"
#include "onnx/reader.h"

namespace tutti::test {

inline Result<std::vector<TensorType>> infer_first(const Node& node, int) {
  return std::vector<TensorType>{node.input(0)->type()};
}

// Add(a, b), Scale(x) {alpha}, Pieces(x) -> n outputs: enough to see what the importer does.
inline void register_toy_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  OpDef def;
  def.type = "Add";
  def.min_inputs = 1;
  def.max_inputs = 3;
  def.infer = infer_first;
  ops->add(def);
  def = OpDef();
  def.type = "Scale";
  def.domain = "ai.tutti";
  def.attributes = {{"alpha", AttributeKind::kFloat, false}};
  def.infer = infer_first;
  ops->add(def);

  lowerings->add({"", "Add", 7, {}, [](LoweringContext& context) {
                    std::vector<Value*> inputs;
                    for (std::size_t i = 0; i < context.num_inputs(); ++i) {
                      inputs.push_back(context.input(i));
                    }
                    context.outputs[0] = context.b.op("Add", inputs);
                    return context.b.status();
                  }});
  lowerings->add({"", "LeakyRelu", 16, {"alpha"}, [](LoweringContext& context) {
                    context.outputs[0] =
                        context.b.op("Scale", {context.input(0)},
                                     {{"alpha", context.attr_float("alpha", 0.01)}});
                    return context.b.status();
                  }});
  lowerings->add({"", "Identity", 13, {}, [](LoweringContext& context) {
                    context.outputs[0] = context.input(0);
                    return Status();
                  }});
  // Says how many outputs it was asked for.
  lowerings->add({"", "LayerNormalization", 17, {}, [](LoweringContext& context) {
                    if (context.outputs.size() != 1) return unimplemented("statistics");
                    context.outputs[0] = context.b.op("Scale", {context.input(0)});
                    return context.b.status();
                  }});
  lowerings->add({"", "Split", 18, {}, [](LoweringContext& context) {
                    for (Value*& output : context.outputs) {
                      output = context.b.op("Scale", {context.input(0)});
                    }
                    return context.b.status();
                  }});
  lowerings->add({"", "Late", 21, {}, nullptr});
}

class ModelFixture : public ::testing::Test {
 protected:
  ModelFixture() {
    register_toy_ops(&ops_, &lowerings_);
    model_.set_ir_version(10);
    import_opset("", 18);
    graph().set_name("g");
  }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  void import_opset(const std::string& domain, std::int64_t version) {
    onnx::OperatorSetIdProto* import = model_.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }

  // Dimensions: a number, a formula, or "?" for one without a size.
  static void set_value(onnx::ValueInfoProto* value, const std::string& name, int type,
                        const std::vector<std::string>& dims) {
    value->set_name(name);
    onnx::TypeProto::Tensor* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::string& dim : dims) {
      onnx::TensorShapeProto::Dimension* out = tensor->mutable_shape()->add_dim();
      if (dim == "?") continue;
      if (dim.find_first_not_of("-0123456789") == std::string::npos) {
        out->set_dim_value(std::stoll(dim));
      } else {
        out->set_dim_param(dim);
      }
    }
  }
  void add_input(const std::string& name, const std::vector<std::string>& dims,
                 int type = onnx::TensorProto::FLOAT) {
    set_value(graph().add_input(), name, type, dims);
  }
  void add_output(const std::string& name) { graph().add_output()->set_name(name); }

  template <class Owner>
  static onnx::NodeProto* add_node(Owner* owner, const std::string& type,
                                   const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs,
                                   const std::string& name = "") {
    onnx::NodeProto* node = owner->add_node();
    node->set_op_type(type);
    node->set_name(name);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    return node;
  }
  onnx::NodeProto* add_node(const std::string& type, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs, const std::string& name = "") {
    return add_node(&graph(), type, inputs, outputs, name);
  }

  static onnx::AttributeProto* add_attribute(onnx::NodeProto* node, const std::string& name,
                                             onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }

  onnx::TensorProto* add_initializer(const std::string& name, int type,
                                     const std::vector<std::int64_t>& dims) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const std::int64_t dim : dims) tensor->add_dims(dim);
    return tensor;
  }

  Result<std::unique_ptr<Graph>> read() {
    const std::string bytes = model_.SerializeAsString();
    return read_onnx_bytes(std::as_bytes(std::span(bytes)), folder_, ops_, lowerings_, options_);
  }

  std::unique_ptr<Graph> read_ok() {
    auto graph = read();
    EXPECT_TRUE(graph.ok()) << graph.status().to_string();
    return graph.ok() ? *std::move(graph) : std::make_unique<Graph>();
  }

  std::string error() {
    const auto graph = read();
    EXPECT_FALSE(graph.ok());
    return graph.ok() ? "" : graph.status().message();
  }

  // The content of the constant that is the model's only output.
  Tensor read_constant() {
    const auto graph = read_ok();
    if (graph->outputs().size() != 1) return Tensor();
    return graph->outputs()[0]->constant();
  }

  OpRegistry ops_;
  LoweringRegistry lowerings_;
  ReadOptions options_;
  std::string folder_;
  onnx::ModelProto model_;
};

}  // namespace tutti::test
