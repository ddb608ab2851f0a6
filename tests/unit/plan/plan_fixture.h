// A small plan with everything a plan can hold, over toy operators.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "graph/append_node.h"
#include "onnx.pb.h"
#include "plan/plan.h"
#include "plan/plan_seal.h"
#include "support/temp_folder.h"

namespace tutti::test {

inline Result<std::vector<TensorType>> infer_same(const Node& node, int) {
  return std::vector<TensorType>{node.input(0)->type()};
}

inline Result<std::vector<TensorType>> infer_shape_attribute(const Node& node, int) {
  return std::vector<TensorType>{{node.input(0)->dtype(), node.attr_dims("shape")}};
}

inline OpRegistry plan_toy_ops() {
  OpRegistry ops;
  OpDef def;
  def.type = "Add";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.infer = infer_same;
  ops.add(def);

  def = OpDef();
  def.type = "Reshape";
  def.domain = "ai.tutti";
  def.attributes = {{"shape", AttributeKind::kDims, true}};
  def.infer = infer_shape_attribute;
  ops.add(def);

  def = OpDef();
  def.type = "Everything";
  def.domain = "ai.tutti";
  def.attributes = {{"i", AttributeKind::kInt, true},     {"f", AttributeKind::kFloat, true},
                    {"s", AttributeKind::kString, true},  {"is", AttributeKind::kInts, true},
                    {"fs", AttributeKind::kFloats, true}, {"ss", AttributeKind::kStrings, true},
                    {"t", AttributeKind::kTensor, true},  {"g", AttributeKind::kGraph, true}};
  def.infer = infer_same;
  ops.add(def);
  return ops;
}

inline Tensor counting(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.5F);
  return Tensor::of<float>({count}, values);
}

class PlanFixture : public ::testing::Test {
 protected:
  Node* append(Graph* graph, const char* type, std::vector<Value*> inputs, AttributeMap attributes,
               std::string output, std::string name = "") {
    return *append_node(graph, *ops_.find(type), name, std::move(inputs), std::move(attributes),
                        {std::move(output)});
  }

  // main(x, hoisted) with weights, all kinds of attributes and a body; prologue(text) -> hoisted.
  Plan make_plan() {
    const Shape local = {Dim::symbol("batch"), part(Dim::symbol("t"), 4, Dim::symbol("rank.cp"))};
    Plan plan;
    plan.mesh = *Mesh::parse("cfg=2,cp=4");
    plan.inputs = {{"x", DType::kFloat32, {Dim::symbol("batch"), Dim::symbol("t")}},
                   {"unused", DType::kInt64, {}},
                   {"text", DType::kBFloat16, {7}}};
    plan.outputs = {{"y", DType::kFloat32, local}, {"weights", DType::kFloat32, {1000}}};
    plan.invariant_inputs = {"text"};
    plan.dims = {{"batch", {1, 2, 4}}, {"t", {16, 1024, 4096}}};
    plan.exchanges = {{"AllToAll", "cp", "blocks.0/attn q", Dim::symbol("t") * 512, false},
                      {"AllGather", "cfg", "", 0, true}};
    plan.strategy = "cp=ulysses,cfg=cfg";
    plan.source_hash = "0123";

    auto body = std::make_shared<Graph>();
    body->name = "body";
    Value* a = body->add_input("a", {DType::kFloat32, {}});
    body->add_output(append(body.get(), "Add", {a, a}, {}, "b")->output());
    body->output_names = {"b"};

    plan.main = std::make_unique<Graph>();
    plan.main->name = "main graph";
    Value* hoisted = plan.main->add_input("hoisted", {DType::kBFloat16, {7}});
    Value* x =
        plan.main->add_input("x", {DType::kFloat32, {Dim::symbol("batch"), Dim::symbol("t")}});
    Value* weights = plan.main->add_constant("weights", counting(1000));
    Value* small = plan.main->add_constant("small", counting(3));
    Value* piece =
        append(plan.main.get(), "Reshape", {x}, {{"shape", local}}, "v1", "cut")->output();
    AttributeMap attributes;
    attributes["i"] = std::int64_t{-5};
    attributes["f"] = 0.1;  // no 32-bit float
    attributes["s"] = std::string("text\n");
    attributes["is"] = std::vector<std::int64_t>{1, -2};
    attributes["fs"] = std::vector<double>{0.5, 1.0 / 3};
    attributes["ss"] = std::vector<std::string>{"a", ""};
    attributes["t"] = counting(2000);
    attributes["g"] = std::shared_ptr<const Graph>(body);
    Value* all = append(plan.main.get(), "Everything", {piece}, attributes, "v0")->output();
    Value* sum = append(plan.main.get(), "Add", {all, small, hoisted}, {}, "sum")->output();
    plan.main->add_output(sum);
    plan.main->add_output(weights);
    plan.main->output_names = {"y", "weights"};

    plan.prologue = std::make_unique<Graph>();
    plan.prologue->name = "prologue";
    Value* text = plan.prologue->add_input("text", {DType::kBFloat16, {7}});
    Value* shared = plan.prologue->add_constant("shared", weights->constant());
    plan.prologue->add_output(
        append(plan.prologue.get(), "Add", {text, text, shared}, {}, "inner")->output());
    plan.prologue->output_names = {"hoisted"};
    return plan;
  }

  static std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Changes the model inside a written plan and seals it again: damage that no digest shows.
  void tamper(const std::function<void(onnx::ModelProto*)>& change) {
    const std::string bytes = read_file(path_);
    const auto body = unseal(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(body.ok()) << body.status().to_string();
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromArray(body->data(), static_cast<int>(body->size())));
    change(&model);
    std::string changed = model.SerializeAsString();
    seal(&changed);
    write_file(path_, changed);
  }

  static onnx::NodeProto* find_node(onnx::ModelProto* model, const std::string& type) {
    for (onnx::NodeProto& node : *model->mutable_graph()->mutable_node()) {
      if (node.op_type() == type) return &node;
    }
    return nullptr;
  }

  std::string error_of_read() {
    const auto plan = read_plan(path_, ops_);
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? "" : plan.status().message();
  }

  OpRegistry ops_ = plan_toy_ops();
  const test::TempFolder folder_;
  const std::string path_ = folder_.file("model.plan");
};

}  // namespace tutti::test
