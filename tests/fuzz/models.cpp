#include "fuzz/models.h"

#include <google/protobuf/text_format.h>

#include <cstdio>
#include <cstdlib>

#include "base/str_cat.h"
#include "onnx.pb.h"

namespace tutti::fuzz {
namespace {

// ONNX's element types.
constexpr int kFloat = 1;
constexpr int kInt64 = 7;
constexpr int kBool = 9;

std::string value(const std::string& name, const std::vector<std::string>& dims,
                  int type = kFloat) {
  std::string shape;
  for (const std::string& dim : dims) {
    const bool is_number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape += is_number ? str_cat("dim { dim_value: ", dim, " } ")
                       : str_cat("dim { dim_param: '", dim, "' } ");
  }
  return str_cat("{ name: '", name, "' type { tensor_type { elem_type: ", type, " shape { ", shape,
                 "} } } } ");
}

std::string input(const std::string& name, const std::vector<std::string>& dims,
                  int type = kFloat) {
  return "input " + value(name, dims, type);
}

std::string output(const std::string& name) { return str_cat("output { name: '", name, "' } "); }

std::string node(const std::string& type, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::string& more = "") {
  std::string text = str_cat("node { op_type: '", type, "' ");
  for (const std::string& name : inputs) text += str_cat("input: '", name, "' ");
  for (const std::string& name : outputs) text += str_cat("output: '", name, "' ");
  return text + more + " } ";
}

std::string ints(const std::string& name, const std::string& numbers) {
  return str_cat("attribute { name: '", name, "' type: INTS ints: [", numbers, "] } ");
}
std::string integer(const std::string& name, int number) {
  return str_cat("attribute { name: '", name, "' type: INT i: ", number, " } ");
}
std::string text(const std::string& name, const std::string& content) {
  return str_cat("attribute { name: '", name, "' type: STRING s: '", content, "' } ");
}

std::string constant(const std::string& name, const std::string& dims, const std::string& data,
                     int type = kFloat) {
  return str_cat("initializer { name: '", name, "' data_type: ", type, " dims: [", dims, "] ", data,
                 " } ");
}
std::string sizes(const std::string& name, int count, const std::string& numbers) {
  return constant(name, std::to_string(count), str_cat("int64_data: [", numbers, "]"), kInt64);
}
std::string external(const std::string& name, const std::string& dims, int offset, int length) {
  return constant(name, dims,
                  str_cat("data_location: EXTERNAL "
                          "external_data { key: 'location' value: 'weights.bin' } "
                          "external_data { key: 'offset' value: '",
                          offset, "' } external_data { key: 'length' value: '", length, "' }"));
}
std::string zeros(int count) {
  return str_cat("raw_data: '", std::string(static_cast<std::size_t>(count) * 4, 'A'), "'");
}

std::string model(const std::string& graph, const std::string& more = "", int opset = 21) {
  const std::string whole = str_cat("ir_version: 11 opset_import { version: ", opset,
                                    " } opset_import { domain: 'own' version: 1 } "
                                    "graph { name: 'g' ",
                                    graph, "} ", more);
  onnx::ModelProto proto;
  if (!google::protobuf::TextFormat::ParseFromString(whole, &proto)) {
    std::fprintf(stderr, "a sample model does not parse: %s\n", whole.c_str());
    std::abort();
  }
  return proto.SerializeAsString();
}

std::string mlp() {
  return model(input("x", {"batch", "rows", "8"}) + constant("w", "8, 16", zeros(128)) +
               constant("b", "16", zeros(16)) + constant("v", "16, 8", zeros(128)) +
               node("MatMul", {"x", "w"}, {"h"}) + node("Add", {"h", "b"}, {"hb"}) +
               node("Gelu", {"hb"}, {"a"}) + node("MatMul", {"a", "v"}, {"o"}) +
               node("Add", {"o", "x"}, {"y"}) + output("y"));
}

// Heads by Reshape and Transpose, scaled dot products, as exporters write attention.
std::string attention() {
  std::string graph = input("x", {"batch", "t", "16"}) + constant("scale", "", "float_data: [0.5]");
  graph += sizes("split", 4, "0, 0, 4, 4") + sizes("joined", 3, "0, 0, 16");
  for (const std::string name : {"q", "k", "v"}) {
    graph += constant("w" + name, "16, 16", zeros(256)) +
             node("MatMul", {"x", "w" + name}, {name}) +
             node("Reshape", {name, "split"}, {name + "4"}) +
             node("Transpose", {name + "4"}, {name + "h"},
                  ints("perm", name == "k" ? "0, 2, 3, 1" : "0, 2, 1, 3"));
  }
  graph += node("MatMul", {"qh", "kh"}, {"s"}) + node("Mul", {"s", "scale"}, {"scaled"}) +
           node("Softmax", {"scaled"}, {"p"}, integer("axis", -1)) +
           node("MatMul", {"p", "vh"}, {"o"}) +
           node("Transpose", {"o"}, {"ot"}, ints("perm", "0, 2, 1, 3")) +
           node("Reshape", {"ot", "joined"}, {"y"}) + output("y");
  return model(graph);
}

std::string opset_attention() {
  return model(input("q", {"1", "4", "t", "8"}) + input("k", {"1", "2", "s", "8"}) +
                   input("v", {"1", "2", "s", "8"}) +
                   node("Attention", {"q", "k", "v"}, {"y"}, integer("is_causal", 1)) + output("y"),
               "", 23);
}

std::string branches() {
  const std::string then_branch = node("Add", {"x", "x"}, {"twice"}) + output("twice");
  const std::string else_branch = node("Identity", {"x"}, {"same"}) + output("same");
  return model(
      input("x", {"n"}) + constant("yes", "", "int32_data: [1]", kBool) +
      node("If", {"yes"}, {"y"},
           str_cat("attribute { name: 'then_branch' type: GRAPH g { name: 't' ", then_branch,
                   "} } attribute { name: 'else_branch' type: GRAPH g { name: 'e' ", else_branch,
                   "} }")) +
      output("y"));
}

std::string functions() {
  const std::string scale =
      "functions { name: 'Scale' domain: 'own' input: 'a' output: 'b' attribute: 'by' "
      "opset_import { version: 21 } " +
      node("Constant", {}, {"c"},
           "attribute { name: 'value_float' ref_attr_name: 'by' type: FLOAT }") +
      node("Mul", {"a", "c"}, {"b"}) + "} ";
  const std::string twice =
      "functions { name: 'Twice' domain: 'own' input: 'a' output: 'c' "
      "opset_import { domain: 'own' version: 1 } " +
      node("Scale", {"a"}, {"b"}, "domain: 'own' attribute { name: 'by' type: FLOAT f: 2 }") +
      node("Scale", {"b"}, {"c"}, "domain: 'own' attribute { name: 'by' type: FLOAT f: 3 }") + "} ";
  return model(input("x", {"n", "4"}) + node("Twice", {"x"}, {"y"}, "domain: 'own'") + output("y"),
               scale + twice);
}

std::string annotated() {
  return model(input("x", {"4", "8"}) +
                   node("Relu", {"x"}, {"y"},
                        "name: 'relu' device_configurations { configuration_id: 'cp=2' "
                        "sharding_spec { tensor_name: 'x' device: [0, 1] sharded_dim { axis: 0 "
                        "simple_sharding { dim_value: 4 num_shards: 2 } } } }") +
                   output("y"),
               "configuration { name: 'cp=2' num_devices: 2 device: ['a', 'b'] }");
}

std::string outside() {
  return model(input("x", {"n", "16"}) + external("w", "16, 16", 0, 1024) +
               external("b", "16", 1024, 64) + node("Gemm", {"x", "w", "b"}, {"y"}) + output("y"));
}

std::string convolutions() {
  return model(
      input("x", {"1", "4", "h", "w"}) + constant("k", "8, 4, 3, 3", zeros(288)) +
      constant("scales", "4", "float_data: [1, 1, 2, 2]") +
      node("Conv", {"x", "k"}, {"c"}, ints("pads", "1, 1, 1, 1")) +
      node("Resize", {"c", "", "scales"}, {"r"}, text("mode", "nearest")) +
      node("MaxPool", {"r"}, {"y"}, ints("kernel_shape", "2, 2") + ints("strides", "2, 2")) +
      output("y"));
}

std::string movements() {
  return model(
      input("x", {"a", "b", "12"}) + sizes("starts", 1, "1") + sizes("ends", 1, "9") +
      sizes("axes", 1, "2") + sizes("steps", 1, "2") + sizes("pads", 6, "0, 0, 1, 0, 0, 1") +
      sizes("index", 3, "2, 0, 1") + sizes("tiles", 3, "1, 2, 1") +
      node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"s"}) +
      node("Pad", {"s", "pads"}, {"p"}) +
      node("Gather", {"p", "index"}, {"g"}, integer("axis", 2)) +
      node("Tile", {"g", "tiles"}, {"t"}) + node("Concat", {"t", "t"}, {"c"}, integer("axis", 0)) +
      node("Split", {"c"}, {"y", "z"}, integer("axis", 2) + integer("num_outputs", 2)) +
      output("y") + output("z"));
}

// Sizes computed from sizes, as exporters write them, over constants that fold.
std::string shape_arithmetic() {
  return model(input("x", {"batch", "t", "8"}) + sizes("zero", 1, "0") + sizes("two", 1, "2") +
               sizes("rest", 1, "-1") + node("Shape", {"x"}, {"shape"}) +
               node("Gather", {"shape", "zero"}, {"n"}) + node("Mul", {"n", "two"}, {"m"}) +
               node("Concat", {"m", "rest"}, {"target"}, integer("axis", 0)) +
               node("Reshape", {"x", "target"}, {"y"}) + output("y"));
}

std::string folded() {
  return model(sizes("shape", 2, "3, 4") + constant("start", "", "int64_data: [0]", kInt64) +
               constant("limit", "", "int64_data: [12]", kInt64) +
               constant("delta", "", "int64_data: [1]", kInt64) +
               node("ConstantOfShape", {"shape"}, {"zeros"}) +
               node("Range", {"start", "limit", "delta"}, {"range"}) +
               node("Reshape", {"range", "shape"}, {"r"}) +
               node("Cast", {"r"}, {"f"}, integer("to", kFloat)) +
               node("Add", {"zeros", "f"}, {"sum"}) + node("Expand", {"sum", "shape"}, {"e"}) +
               node("ReduceSum", {"e"}, {"s"}, integer("keepdims", 0)) +
               node("Div", {"e", "s"}, {"y"}) + output("y"));
}

std::string norms() {
  return model(input("x", {"2", "4", "t", "8"}) + constant("g", "8", zeros(8)) +
               constant("s", "4", zeros(4)) +
               node("LayerNormalization", {"x", "g"}, {"l"}, integer("axis", -1)) +
               node("GroupNormalization", {"l", "s", "s"}, {"n"}, integer("num_groups", 2)) +
               node("Einsum", {"n", "n"}, {"e"}, text("equation", "bctd,bcsd->bcts")) +
               node("TopK", {"e", "one"}, {"values", "places"}) + sizes("one", 1, "1") +
               output("values") + output("places"));
}

}  // namespace

std::vector<std::string> sample_models() {
  return {mlp(),       attention(),        opset_attention(), branches(),
          functions(), annotated(),        outside(),         convolutions(),
          movements(), shape_arithmetic(), folded(),          norms()};
}

}  // namespace tutti::fuzz
