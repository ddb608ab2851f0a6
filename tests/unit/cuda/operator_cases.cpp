#include "operator_cases.h"

#include "base/str_cat.h"

namespace tutti::cuda {
namespace {

using Types = std::vector<std::string>;
const Types kFloats = {"f32", "f64", "f16", "bf16"};
const Types kNumbers = {"f32", "f64", "f16", "bf16", "i8",  "i16",
                        "i32", "i64", "u8",  "u16",  "u32", "u64"};
const Types kSigned = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64"};
const Types kIntegers = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
const Types kWidths = {"u8", "bf16", "f32", "i64", "bool"};

class Table {
 public:
  Table() {
    pointwise();
    movement();
    indexed();
    scans();
    reductions();
    products();
    convolutions();
    norms();
    attention();
  }

  std::vector<OperatorCase> cases;

 private:
  void add(std::string name, std::string text, Types types = {"f32"}, double low = -2,
           double high = 2, std::map<std::string, std::pair<int, int>> ranges = {}) {
    cases.push_back(
        {std::move(name), std::move(text), std::move(types), low, high, std::move(ranges)});
  }
  // One node: `inputs` as "%x: $T[2, 3], ...".
  void node(const std::string& name, const std::string& inputs, const std::string& call,
            Types types = {"f32"}, double low = -2, double high = 2,
            std::map<std::string, std::pair<int, int>> ranges = {}) {
    add(name, str_cat("graph (", inputs, ") { %y = ", call, " return %y }"), std::move(types), low,
        high, std::move(ranges));
  }

  void pointwise() {
    for (const char* op : {"Abs", "Sign", "Relu"}) {
      node(op, "%x: $T[3, 37]", str_cat(op, "(%x)"), kNumbers, -20, 20);
    }
    node("Neg", "%x: $T[3, 37]", "Neg(%x)", kSigned, -20, 20);
    for (const char* op :
         {"Ceil",     "Cos",      "Erf",  "Floor",     "Round", "Sin",       "Sinh",
          "Cosh",     "Tan",      "Atan", "Asinh",     "Tanh",  "Exp",       "Sigmoid",
          "Softplus", "Softsign", "Silu", "HardSwish", "Mish",  "Reciprocal"}) {
      node(op, "%x: $T[5, 16]", str_cat(op, "(%x)"), kFloats, -3.25, 3.5);
    }
    for (const char* op : {"Acos", "Asin", "Atanh"}) {
      node(op, "%x: $T[77]", str_cat(op, "(%x)"), {"f32", "f64"}, -0.9, 0.9);
    }
    node("Acosh", "%x: $T[77]", "Acosh(%x)", {"f32", "f64"}, 1.1, 4);
    node("Sqrt", "%x: $T[77]", "Sqrt(%x)", kFloats, 0.1, 9);
    node("Log", "%x: $T[77]", "Log(%x)", kFloats, 0.1, 9);
    for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "PRelu"}) {
      node(op, "%x: $T[2, 3, 8], %z: $T[2, 3, 8]", str_cat(op, "(%x, %z)"), kNumbers, -9, 9);
    }
    for (const char* op : {"Div", "Fmod", "FloorMod"}) {
      node(op, "%x: $T[6, 8], %z: $T[6, 8]", str_cat(op, "(%x, %z)"), kNumbers, 1, 50);
      node(str_cat(op, "Negative"), "%x: $T[6, 8], %z: $T[6, 8]", str_cat(op, "(%x, %z)"),
           {"i32", "i64", "i8"}, -50, 50);
    }
    node("Pow", "%x: $T[40], %z: $T[40]", "Pow(%x, %z)", {"f32", "f64", "bf16"}, 0.5, 3);
    node("PowInteger", "%x: $T[40], %z: $T[40]", "Pow(%x, %z)", {"i32", "i64", "u8"}, -3, 4);
    for (const char* exponent : {"1", "2", "3", "0.5", "-0.5", "-1", "1.7"}) {
      add(str_cat("PowConstant", exponent),
          str_cat("graph (%x: f32[40]) { %k = constant f32[] [", exponent,
                  "] %y = Pow(%x, %k) return %y }"),
          {"f32"}, 0.5, 3);
    }
    for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
      node(op, "%x: $T[3, 20], %z: $T[3, 20]", str_cat(op, "(%x, %z)"),
           {"f32", "bf16", "i32", "i64", "u8"}, -2, 2);
    }
    node("EqualBool", "%x: bool[50], %z: bool[50]", "Equal(%x, %z)");
    for (const char* op : {"And", "Or", "Xor"}) {
      node(op, "%x: bool[3, 20], %z: bool[20]", str_cat(op, "(%x, %z)"));
    }
    node("Not", "%x: bool[50]", "Not(%x)");
    for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
      node(op, "%x: $T[50], %z: $T[50]", str_cat(op, "(%x, %z)"), kIntegers, 0, 100);
    }
    node("BitwiseNot", "%x: $T[50]", "BitwiseNot(%x)", kIntegers, 0, 100);
    node("ShiftLeft", "%x: $T[50], %z: $T[50]", "BitShift(%x, %z) {direction = \"LEFT\"}",
         kIntegers, 0, 9);
    node("ShiftRight", "%x: $T[50], %z: $T[50]", "BitShift(%x, %z) {direction = \"RIGHT\"}",
         kIntegers, 0, 9);
    node("Where", "%c: bool[3, 1, 5], %x: $T[4, 5], %z: $T[3, 4, 1]", "Where(%c, %x, %z)", kWidths);
    add("IsInfIsNaN",
        "graph (%x: $T[9]) { %s = Sub(%x, %x) %d = Div(%x, %s) %n = Div(%s, %s) %a = IsInf(%d) "
        "{detect_negative = 0} %b = IsInf(%d) %c = IsNaN(%n) return %a, %b, %c }",
        kFloats);
    node("Gelu", "%x: $T[64]", "Gelu(%x)", kFloats, -4, 4);
    node("GeluTanh", "%x: $T[64]", "Gelu(%x) {approximate = \"tanh\"}", kFloats, -4, 4);
    for (const char* op : {"Elu", "Celu", "ThresholdedRelu", "LeakyRelu"}) {
      node(op, "%x: $T[64]", str_cat(op, "(%x) {alpha = 0.7}"), {"f32", "bf16"});
    }
    node("HardSigmoid", "%x: $T[64]", "HardSigmoid(%x) {alpha = 0.3, beta = 0.4}", kFloats);
    node("Selu", "%x: $T[64]", "Selu(%x) {alpha = 1.67, gamma = 1.05}", kFloats);
    node("Clip", "%x: $T[64]", "Clip(%x) {min = -1.5, max = 7.0}", kNumbers, -20, 20);
    node("ClipMin", "%x: $T[64]", "Clip(%x) {min = 0.5}", {"f32", "i64", "u64"}, 0, 20);
    for (const std::string to : {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"}) {
      node("CastTo" + to, "%x: $T[3, 21]", str_cat("Cast(%x) {to = \"", to, "\"}"),
           {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "bool"}, 0, 90);
      node("CastNegativeTo" + to, "%x: $T[3, 21]", str_cat("Cast(%x) {to = \"", to, "\"}"),
           {"f32", "f64", "bf16", "i32", "i64"}, -90, 90);
    }
    node("CastToBool", "%x: $T[64]", "Cast(%x) {to = \"bool\"}", {"f32", "bf16", "i64", "u8"}, -1,
         1);
    // Broadcasting in every way: packs, rows, columns, scalars, several dimensions.
    node("BroadcastRow", "%x: $T[6, 32], %z: $T[32]", "Mul(%x, %z)", {"f32", "bf16", "u8", "f64"});
    node("BroadcastColumn", "%x: $T[6, 32], %z: $T[6, 1]", "Mul(%x, %z)", {"f32", "bf16", "f64"});
    node("BroadcastScalar", "%x: $T[6, 32], %z: $T[]", "Add(%x, %z)", kFloats);
    node("BroadcastBoth", "%x: $T[6, 1, 5], %z: $T[1, 7, 1]", "Sub(%x, %z)", kFloats);
    node("BroadcastMiddle", "%x: $T[2, 3, 4, 8], %z: $T[3, 1, 8]", "Add(%x, %z)", {"f32", "bf16"});
    node("BroadcastOdd", "%x: $T[3, 1, 7], %z: $T[5, 7]", "Add(%x, %z)", {"f32", "bf16"});
    node("Scalars", "%x: $T[], %z: $T[]", "Add(%x, %z)", kFloats);
    add("Region",
        R"(graph (%x: $T[4, 6, 16], %s: $T[16], %g: $T[4, 1, 16], %m: bool[4, 6, 1]) {
          %a, %b = Pointwise(%x, %s, %g, %m) {body = graph (%p: $T[], %q: $T[], %r: $T[], %k: bool[]) {
            %one = constant $T[] [1.0]
            %t = Mul(%p, %q)
            %u = Add(%t, %one)
            %v = Silu(%u)
            %w = Where(%k, %v, %r)
            %c = Cast(%w) {to = "f32"}
            return %w, %c
          }}
          return %a, %b
        })",
        kFloats);
    add("RegionPassesInputsOn",
        R"(graph (%x: f32[4, 4], %z: f32[4]) {
          %a, %b, %c = Pointwise(%x, %z) {body = graph (%p: f32[], %q: f32[]) {
            %k = constant f32[] [3.5]
            %t = Add(%p, %q)
            return %t, %t, %k
          }}
          return %a, %b, %c
        })");
  }

  void movement() {
    node("Transpose", "%x: $T[2, 3, 4, 5]", "Transpose(%x) {perm = [2, 0, 3, 1]}", kWidths);
    node("TransposeRows", "%x: $T[2, 6, 4, 16]", "Transpose(%x) {perm = [0, 2, 1, 3]}", kWidths);
    node("TransposeMatrix", "%x: $T[33, 65]", "Transpose(%x) {perm = [1, 0]}", kWidths);
    node("Expand", "%x: $T[3, 1, 5]", "Expand(%x) {shape = dims[2, 3, 4, 5]}", kWidths);
    node("Slice", "%x: $T[6, 7, 8]",
         "Slice(%x) {axes = [0, 2], starts = dims[1, 2], ends = dims[5, 8], steps = [1, 1]}",
         kWidths);
    node("SliceSteps", "%x: $T[9, 10]",
         "Slice(%x) {axes = [0, 1], starts = dims[8, 1], ends = dims[-1, 10], steps = [-2, 3]}",
         kWidths);
    node("Tile", "%x: $T[2, 3]", "Tile(%x) {repeats = dims[3, 2]}", kWidths);
    add("Concat",
        "graph (%a: $T[2, 3, 4], %b: $T[2, 1, 4], %c: $T[2, 5, 4]) { %y = Concat(%a, %b, %c) "
        "{axis = 1} return %y }",
        kWidths);
    add("Split",
        "graph (%x: $T[2, 9, 4]) { %a, %b, %c = Split(%x) {axis = 1, sizes = dims[2, 3, 4]} "
        "return %a, %b, %c }",
        kWidths);
    node("PadZero", "%x: $T[3, 4]",
         "Pad(%x) {axes = [0, 1], before = dims[1, 2], after = dims[0, 3], mode = \"constant\"}",
         kWidths);
    node("PadValue", "%x: $T[3, 4], %v: $T[]",
         "Pad(%x, %v) {axes = [1], before = dims[2], after = dims[1], mode = \"constant\"}",
         kWidths);
    for (const char* mode : {"reflect", "edge", "wrap"}) {
      node(str_cat("Pad", mode), "%x: $T[3, 4, 5]",
           str_cat("Pad(%x) {axes = [1, 2], before = dims[2, 1], after = dims[3, 4], mode = \"",
                   mode, "\"}"),
           kWidths);
    }
    add("SizesFillIota",
        "graph (%v: $T[], %s: $T[]) { %a = Sizes() {values = dims[3, 4, 5]} %b = Fill(%v) {shape = "
        "dims[3, 7]} %c = Iota(%v, %s) {size = dims[19]} return %a, %b, %c }",
        {"f32", "f64", "i32", "i64", "f16"}, 1, 3);
    node("Trilu", "%x: $T[2, 5, 7]", "Trilu(%x) {upper = 1, k = 1}", kWidths);
    node("TriluLower", "%x: $T[2, 5, 7]", "Trilu(%x) {upper = 0, k = -2}", kWidths);
    node("TriluFar", "%x: $T[4, 4]", "Trilu(%x) {upper = 1, k = -900}", kWidths);
  }

  void indexed() {
    const Types kMoved = {"f32", "bf16", "u8", "i64"};
    for (const char* index : {"i32", "i64"}) {
      const std::string i = index;
      node("Gather" + i, str_cat("%x: $T[5, 6, 8], %i: ", i, "[2, 3]"), "Gather(%x, %i) {axis = 1}",
           kMoved, -2, 2, {{"i", {-6, 5}}});
      node("GatherFirst" + i, str_cat("%x: $T[50, 3], %i: ", i, "[7]"), "Gather(%x, %i) {axis = 0}",
           kMoved, -2, 2, {{"i", {-50, 49}}});
      node("GatherElements" + i, str_cat("%x: $T[5, 6], %i: ", i, "[3, 6]"),
           "GatherElements(%x, %i) {axis = 0}", kMoved, -2, 2, {{"i", {-5, 4}}});
      node("ScatterElements" + i, str_cat("%x: $T[5, 6], %i: ", i, "[3, 4], %u: $T[3, 4]"),
           "ScatterElements(%x, %i, %u) {axis = 1}", kMoved, -2, 2, {{"i", {-6, 5}}});
    }
    node("GatherScalar", "%x: $T[5, 6], %i: i64[]", "Gather(%x, %i) {axis = 0}", kMoved, -2, 2,
         {{"i", {0, 4}}});
    node("GatherND", "%x: $T[2, 3, 4, 5], %i: i64[2, 6, 2]", "GatherND(%x, %i) {batch_dims = 1}",
         kMoved, -2, 2, {{"i", {-3, 2}}});
    node("GatherNDWhole", "%x: $T[3, 4], %i: i64[7, 2]", "GatherND(%x, %i)", kMoved, -2, 2,
         {{"i", {-3, 2}}});
    for (const char* reduction : {"add", "mul", "max", "min"}) {
      node(str_cat("ScatterElements_", reduction), "%x: $T[5, 6], %i: i64[9, 4], %u: $T[9, 4]",
           str_cat("ScatterElements(%x, %i, %u) {axis = 0, reduction = \"", reduction, "\"}"),
           {"f32", "bf16", "i32", "u8"}, -2, 2, {{"i", {-5, 4}}});
      node(str_cat("ScatterND_", reduction), "%x: $T[6, 3], %i: i64[8, 1], %u: $T[8, 3]",
           str_cat("ScatterND(%x, %i, %u) {reduction = \"", reduction, "\"}"),
           {"f32", "bf16", "i32", "u8"}, -2, 2, {{"i", {-6, 5}}});
    }
    node("ScatterND", "%x: $T[4, 5, 6], %i: i64[3, 2, 2], %u: $T[3, 2, 6]", "ScatterND(%x, %i, %u)",
         kMoved, -2, 2, {{"i", {-4, 3}}});
  }

  void scans() {
    for (const char* form : {"exclusive = 0, reverse = 0", "exclusive = 1, reverse = 0",
                             "exclusive = 0, reverse = 1", "exclusive = 1, reverse = 1"}) {
      node(str_cat("CumSum ", form), "%x: $T[3, 9, 2]",
           str_cat("CumSum(%x) {axis = 1, ", form, "}"), {"f32", "f64", "bf16", "i32", "i64"});
    }
    for (const char* first : {"batch_axis = 0, time_axis = 1", "batch_axis = 1, time_axis = 0"}) {
      node(str_cat("ReverseSequence ", first), "%x: $T[4, 4, 3], %n: i64[4]",
           str_cat("ReverseSequence(%x, %n) {", first, "}"), {"f32", "bf16", "u8"}, -2, 2,
           {{"n", {0, 4}}});
    }
    for (const char* largest : {"1", "0"}) {
      add(str_cat("TopK", largest),
          str_cat("graph (%x: $T[3, 40, 2]) { %v, %i = TopK(%x) {axis = 1, k = dims[7], largest = ",
                  largest, ", sorted = 1} return %v, %i }"),
          {"f32", "bf16", "i32", "u8"}, -30, 30);
    }
    add("TopKLong",
        "graph (%x: f32[2, 3000]) { %v, %i = TopK(%x) {axis = 1, k = dims[5], largest = 1, sorted "
        "= 1} return %v, %i }");
    for (const char* op : {"ArgMax", "ArgMin"}) {
      for (const char* last : {"0", "1"}) {
        node(str_cat(op, last), "%x: $T[3, 40, 2]",
             str_cat(op, "(%x) {axis = 1, keepdims = 1, select_last_index = ", last, "}"),
             {"f32", "bf16", "i32", "u8"}, -5, 5);
      }
    }
  }

  void reductions() {
    for (const char* kind : {"sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square"}) {
      node(str_cat("Reduce_", kind), "%x: $T[3, 5, 7]",
           str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [1], keepdims = 0}"),
           {"f32", "f64", "f16", "bf16", "i32", "i64", "u64"}, 1, 2);
      node(str_cat("ReduceInner_", kind), "%x: $T[3, 5, 70]",
           str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [2], keepdims = 1}"),
           {"f32", "f64", "bf16"}, 0.9, 1.1);
      node(str_cat("ReduceSome_", kind), "%x: $T[3, 4, 5, 6]",
           str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [0, 2], keepdims = 0}"),
           {"f32", "i32"}, 0.9, 1.1);
    }
    for (const char* kind : {"log_sum", "log_sum_exp"}) {
      node(str_cat("Reduce_", kind), "%x: $T[3, 5, 70]",
           str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [2], keepdims = 0}"), kFloats, 0.5,
           2);
    }
    node("ReduceAll", "%x: $T[30, 500]", "Reduce(%x) {kind = \"sum\", axes = [0, 1], keepdims = 0}",
         kFloats);
    node("ReduceMany", "%x: f32[3000, 12, 4]",
         "Reduce(%x) {kind = \"sum\", axes = [1], keepdims = 0}");
    node("ReduceLong", "%x: f32[2, 5000]",
         "Reduce(%x) {kind = \"mean\", axes = [1], keepdims = 0}");
    node("ReduceBool", "%x: bool[4, 9]", "Reduce(%x) {kind = \"max\", axes = [1], keepdims = 0}");
    node("ReduceNothing", "%x: f32[4, 9]", "Reduce(%x) {kind = \"sum\", axes = [], keepdims = 0}");
  }

  void products() {
    node("MatMul", "%x: $T[17, 33], %z: $T[33, 40]", "MatMul(%x, %z)", kFloats);
    node("MatMulInteger", "%x: $T[17, 33], %z: $T[33, 40]", "MatMul(%x, %z)", {"i32", "i64", "u32"},
         -3, 3);
    node("MatMulBatched", "%x: $T[3, 2, 5, 8], %z: $T[3, 2, 8, 6]", "MatMul(%x, %z)", kFloats);
    node("MatMulSharedRight", "%x: $T[3, 2, 5, 8], %z: $T[8, 6]", "MatMul(%x, %z)", kFloats);
    node("MatMulSharedLeft", "%x: $T[5, 8], %z: $T[3, 2, 8, 6]", "MatMul(%x, %z)", kFloats);
    node("MatMulBroadcast", "%x: $T[3, 1, 5, 8], %z: $T[1, 2, 8, 6]", "MatMul(%x, %z)", kFloats);
    node("MatMulOddBatch", "%x: $T[4, 3, 5], %z: $T[4, 5, 7]", "MatMul(%x, %z)", kFloats);
    node("MatMulRow", "%x: $T[1, 64], %z: $T[64, 128]", "MatMul(%x, %z)", kFloats);
    for (const char* activation : {"", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}) {
      const std::string attributes =
          str_cat("{transpose_w = 0, activation = \"", activation, "\"}");
      node(str_cat("Linear_", activation), "%x: $T[2, 9, 32], %w: $T[32, 48]",
           "Linear(%x, %w) " + attributes, {"f32", "bf16"}, -1, 1);
      node(str_cat("LinearBias_", activation), "%x: $T[2, 9, 32], %w: $T[32, 48], %b: $T[48]",
           "Linear(%x, %w, %b) " + attributes, kFloats, -1, 1);
      node(str_cat("LinearAll_", activation),
           "%x: $T[2, 9, 32], %w: $T[32, 48], %b: $T[48], %r: $T[2, 9, 48]",
           "Linear(%x, %w, %b, %r) " + attributes, kFloats, -1, 1);
    }
    node("LinearTransposed", "%x: $T[7, 24], %w: $T[40, 24], %b: $T[40]",
         "Linear(%x, %w, %b) {transpose_w = 1, activation = \"\"}", kFloats, -1, 1);
    node("LinearResidual", "%x: $T[7, 24], %w: $T[40, 24], %r: $T[7, 40]",
         "Linear(%x, %w, _, %r) {transpose_w = 1, activation = \"\"}", kFloats, -1, 1);
    node("LinearOdd", "%x: $T[7, 13], %w: $T[13, 5], %b: $T[5]",
         "Linear(%x, %w, %b) {transpose_w = 0, activation = \"relu\"}", kFloats, -1, 1);
  }

  void convolutions() {
    const Types types = {"f32", "f64", "f16", "bf16"};
    node("Conv1", "%x: $T[2, 4, 11], %w: $T[6, 4, 3], %b: $T[6]",
         "Conv(%x, %w, %b) {strides = [2], pads = [1, 0], dilations = [1], group = 1}", types);
    node("Conv2", "%x: $T[2, 4, 9, 8], %w: $T[6, 2, 3, 2]",
         "Conv(%x, %w) {strides = [1, 2], pads = [1, 0, 2, 1], dilations = [2, 1], group = 2}",
         types);
    node("Conv3", "%x: $T[1, 3, 4, 5, 6], %w: $T[4, 3, 3, 3, 3], %b: $T[4]",
         "Conv(%x, %w, %b) {strides = [1, 1, 1], pads = [1, 1, 1, 1, 1, 1], dilations = [1, 1, 1], "
         "group = 1}",
         types);
    node("ConvTranspose2", "%x: $T[2, 4, 5, 6], %w: $T[4, 3, 3, 2], %b: $T[6]",
         "ConvTranspose(%x, %w, %b) {strides = [2, 3], pads = [1, 0, 0, 1], dilations = [1, 2], "
         "group = 2, output_padding = [1, 0]}",
         types);
    node("Conv2Even", "%x: $T[2, 16, 12, 10], %w: $T[24, 16, 3, 3], %b: $T[24]",
         "Conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}",
         types, -1, 1);
    node("Conv2Pointwise", "%x: $T[1, 32, 9, 7], %w: $T[8, 32, 1, 1]",
         "Conv(%x, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}",
         types, -1, 1);
    node("Conv2Depthwise", "%x: $T[1, 16, 9, 8], %w: $T[16, 1, 3, 3], %b: $T[16]",
         "Conv(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1], group = 16}",
         types, -1, 1);
    node("Conv2Grouped", "%x: $T[1, 32, 9, 8], %w: $T[16, 8, 3, 3], %b: $T[16]",
         "Conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 4}",
         types, -1, 1);
    node("Conv3Causal", "%x: $T[1, 8, 5, 6, 7], %w: $T[16, 8, 3, 3, 3], %b: $T[16]",
         "Conv(%x, %w, %b) {strides = [1, 1, 1], pads = [2, 1, 1, 0, 1, 1], dilations = [1, 1, 1], "
         "group = 1}",
         types, -1, 1);
    node("Conv3Strided", "%x: $T[1, 8, 5, 7, 9], %w: $T[8, 8, 3, 1, 2]",
         "Conv(%x, %w) {strides = [2, 1, 2], pads = [2, 0, 0, 0, 0, 1], dilations = [1, 1, 1], "
         "group = 1}",
         types, -1, 1);
    node("ConvTransposeEven", "%x: $T[1, 16, 5, 6], %w: $T[16, 8, 4, 4], %b: $T[8]",
         "ConvTranspose(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1], "
         "group = 1, output_padding = [0, 0]}",
         types, -1, 1);
    node("ConvTranspose1", "%x: $T[2, 8, 9], %w: $T[8, 8, 3]",
         "ConvTranspose(%x, %w) {strides = [2], pads = [1, 1], dilations = [1], group = 1, "
         "output_padding = [1]}",
         types, -1, 1);
    node("ConvTranspose3", "%x: $T[1, 8, 3, 4, 5], %w: $T[8, 8, 3, 3, 3], %b: $T[8]",
         "ConvTranspose(%x, %w, %b) {strides = [1, 2, 2], pads = [1, 1, 1, 1, 1, 1], dilations = "
         "[1, 1, 1], group = 1, output_padding = [0, 1, 1]}",
         types, -1, 1);
    for (const char* kind : {"max", "average", "lp"}) {
      for (const char* counts : {"0", "1"}) {
        node(str_cat("Pool_", kind, counts), "%x: $T[2, 3, 9, 8]",
             str_cat("Pool(%x) {kind = \"", kind, "\", kernel_shape = [3, 2], strides = [2, 1], ",
                     "pads = [1, 0, 1, 1], dilations = [1, 1], ceil_mode = 0, count_include_pad = ",
                     counts, ", p = 3}"),
             types, 0.1, 2);
      }
    }
    node("PoolCeil", "%x: $T[2, 3, 10]",
         "Pool(%x) {kind = \"average\", kernel_shape = [3], strides = [2], pads = [0, 0], "
         "dilations = [1], ceil_mode = 1, count_include_pad = 0, p = 2}",
         types);
    node("PoolMaxInteger", "%x: $T[1, 2, 6, 6]",
         "Pool(%x) {kind = \"max\", kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0], "
         "dilations = [1, 1], ceil_mode = 0, count_include_pad = 0, p = 2}",
         {"i8", "u8"}, -50, 50);
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      node(str_cat("Resize_", mode), "%x: $T[1, 2, 5, 6]",
           str_cat("Resize(%x) {axes = [2, 3], sizes = dims[9, 4], mode = \"", mode, "\"}"),
           {"f32", "f64", "f16", "bf16", "u8"}, 0, 100);
    }
    node("ResizeOneAxis", "%x: $T[1, 2, 5, 6]",
         "Resize(%x) {axes = [3], sizes = dims[13], mode = \"linear\", "
         "coordinate_transformation_mode = \"align_corners\"}",
         {"f32", "bf16"});
    node("ResizeAntialias", "%x: f32[1, 1, 12, 12]",
         "Resize(%x) {axes = [2, 3], sizes = dims[5, 5], mode = \"cubic\", antialias = 1}");
  }

  void norms() {
    for (const char* shape : {"[6, 5]", "[3, 4, 70]", "[2, 3000]"}) {
      const std::string s = shape;
      const std::string last = s.substr(s.rfind(' ') + 1);
      const std::string axis = s == "[3, 4, 70]" ? "2" : "1";
      node("LayerNormalization" + s, str_cat("%x: $T", s, ", %s: $T[", last, ", %b: $T[", last),
           str_cat("LayerNormalization(%x, %s, %b) {axis = ", axis, ", epsilon = 1e-5}"), kFloats);
      node("RMSNormalization" + s, str_cat("%x: $T", s, ", %s: $T[", last),
           str_cat("RMSNormalization(%x, %s) {axis = ", axis, ", epsilon = 1e-6}"), kFloats);
      node("Softmax" + s, str_cat("%x: $T", s), str_cat("Softmax(%x) {axis = ", axis, "}"), kFloats,
           -9, 9);
      node("LogSoftmax" + s, str_cat("%x: $T", s), str_cat("LogSoftmax(%x) {axis = ", axis, "}"),
           kFloats, -9, 9);
    }
    node("LayerNormalizationBare", "%x: $T[3, 4, 5]",
         "LayerNormalization(%x) {axis = 1, epsilon = 1e-5}", kFloats);
    node("LayerNormalizationBiasOnly", "%x: $T[3, 5], %b: $T[5]",
         "LayerNormalization(%x, _, %b) {axis = 1, epsilon = 1e-5}", {"f32", "bf16"});
    node("GroupNorm", "%x: $T[2, 6, 5, 7], %s: $T[6], %b: $T[6]",
         "GroupNorm(%x, %s, %b) {groups = 3, epsilon = 1e-5}", kFloats);
    node("InstanceNorm", "%x: $T[2, 3, 40]", "GroupNorm(%x) {groups = 3, epsilon = 1e-5}",
         {"f32", "bf16"});
    node("SoftmaxInner", "%x: $T[3, 9, 4]", "Softmax(%x) {axis = 1}", kFloats, -5, 5);
    node("LogSoftmaxInner", "%x: $T[3, 9, 4]", "LogSoftmax(%x) {axis = 0}", kFloats, -5, 5);
  }

  void attention() {
    const std::string qkv = "%q: $T[2, 4, 70, 16], %k: $T[2, 2, 45, 16], %v: $T[2, 2, 45, 24]";
    node("Attention", qkv, "Attention(%q, %k, %v) {scale = 0.25, layout = \"bhsd\"}", kFloats);
    node("AttentionTokenMajor", "%q: $T[2, 70, 4, 16], %k: $T[2, 45, 2, 16], %v: $T[2, 45, 2, 16]",
         "Attention(%q, %k, %v) {scale = 0.25, layout = \"bshd\"}", kFloats);
    node("AttentionCausal", qkv,
         "Attention(%q, %k, %v) {scale = 0.25, layout = \"bhsd\", is_causal = 1, causal_offset = "
         "dims[-3]}",
         kFloats);
    node("AttentionSoftcap", qkv,
         "Attention(%q, %k, %v) {scale = 0.5, softcap = 3.0, layout = \"bhsd\"}", kFloats);
    node("AttentionMask", qkv + ", %m: $T[2, 1, 70, 45]",
         "Attention(%q, %k, %v, %m) {scale = 0.25, layout = \"bhsd\"}", kFloats);
    node("AttentionBoolMask", qkv + ", %m: bool[4, 1, 45]",
         "Attention(%q, %k, %v, %m) {scale = 0.25, layout = \"bhsd\"}", kFloats);
    node("AttentionLengths", qkv + ", %n: i64[2]",
         "Attention(%q, %k, %v, _, %n) {scale = 0.25, layout = \"bhsd\", is_causal = 1}", kFloats,
         -2, 2, {{"n", {0, 45}}});
    node("AttentionLong", "%q: $T[1, 4, 300, 64], %k: $T[1, 2, 333, 64], %v: $T[1, 2, 333, 32]",
         "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
         "dims[40]}",
         kFloats);
    node("AttentionLongMask",
         "%q: $T[1, 150, 4, 32], %k: $T[1, 200, 2, 32], %v: $T[1, 200, 2, 48], %m: $T[4, 150, 200]",
         "Attention(%q, %k, %v, %m) {scale = 0.2, layout = \"bshd\"}", kFloats);
    node("AttentionHead128", "%q: $T[1, 2, 33, 128], %k: $T[1, 2, 40, 128], %v: $T[1, 2, 40, 128]",
         "Attention(%q, %k, %v) {scale = 0.088, layout = \"bhsd\"}", kFloats);
    node("AttentionHead256", "%q: $T[1, 1, 20, 256], %k: $T[1, 1, 40, 256], %v: $T[1, 1, 40, 256]",
         "Attention(%q, %k, %v) {scale = 0.0625, layout = \"bhsd\"}", {"f32", "f64", "bf16"});
    cudnn_attention();
    node("AttentionOddHead", "%q: $T[1, 2, 9, 5], %k: $T[1, 2, 3, 5], %v: $T[1, 2, 3, 7]",
         "Attention(%q, %k, %v) {scale = 0.4, layout = \"bhsd\"}", kFloats);
  }

  // Sizes that cuDNN takes; with f32 ours does the same.
  void cudnn_attention() {
    const Types types = {"f32", "f16", "bf16"};
    const std::string qkv = "%q: $T[2, 4, 96, 64], %k: $T[2, 2, 160, 64], %v: $T[2, 2, 160, 64]";
    const std::string square = "%q: $T[2, 4, 70, 64], %k: $T[2, 2, 70, 64], %v: $T[2, 2, 70, 64]";
    const std::string token_major =
        "%q: $T[2, 96, 6, 128], %k: $T[2, 160, 3, 128], %v: $T[2, 160, 3, 128]";
    node("AttentionGrouped", qkv, "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\"}",
         types);
    node("AttentionGroupedTokenMajor", token_major,
         "Attention(%q, %k, %v) {scale = 0.088, layout = \"bshd\"}", types);
    node("AttentionOneKeyHead",
         "%q: $T[1, 4, 40, 64], %k: $T[1, 1, 300, 64], %v: $T[1, 1, 300, 64]",
         "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\"}", types);
    for (const char* offset : {"0", "7", "64", "159", "400"}) {
      node(str_cat("AttentionCausalFrom", offset), qkv,
           str_cat("Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, "
                   "causal_offset = dims[",
                   offset, "]}"),
           types);
    }
    node("AttentionCausalSquare", square,
         "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
         "dims[0]}",
         types);
    node("AttentionCausalFew", square,
         "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
         "dims[-20]}",
         types);
    for (const char* mask : {"[2, 1, 96, 160]", "[1, 1, 96, 160]", "[96, 160]", "[1, 4, 96, 160]",
                             "[2, 1, 1, 160]", "[2, 4, 96, 160]"}) {
      node(str_cat("AttentionBias", mask), str_cat(qkv, ", %m: $T", mask),
           "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\"}", types);
      node(str_cat("AttentionSeen", mask), str_cat(qkv, ", %m: bool", mask),
           "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\"}", types);
    }
    // Rows that see nothing: -inf everywhere where %n is false, and rows whose first keys are shut.
    for (const char* seen : {"[96, 1]", "[1, 1, 1, 160]", "[2, 1, 96, 1]"}) {
      add(str_cat("AttentionShut", seen),
          str_cat(
              "graph (", qkv, ", %n: bool", seen, ", %o: bool[1, 1, 96, 160]) { %s = And(%n, %o) ",
              "%y = Attention(%q, %k, %v, %s) {scale = 0.125, layout = \"bhsd\"} %f = Cast(%s) ",
              "{to = \"$T\"} %l = Log(%f) %z = Attention(%q, %k, %v, %l) {scale = 0.125, layout ",
              "= \"bhsd\"} return %y, %z }"),
          types);
    }
    add("AttentionShutTile",
        str_cat(
            "graph (", qkv, ", %n: bool[96, 32], %w: $T[]) { %least = Log(%w) %f = Cast(%n) {to = ",
            "\"$T\"} %l = Log(%f) %m = Pad(%l, %least) {axes = [1], before = dims[128], after = ",
            "dims[0], mode = \"constant\"} %y = Attention(%q, %k, %v, %m) {scale = 0.125, ",
            "layout = \"bhsd\"} return %y }"),
        types, -2, 2, {{"w", {0, 0}}});
    node("AttentionCausalSeen", str_cat(square, ", %m: bool[70, 70]"),
         "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\", is_causal = 1, "
         "causal_offset = dims[0]}",
         types);
    node("AttentionKeyLengths", str_cat(qkv, ", %n: i64[2]"),
         "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\"}", types, -2, 2,
         {{"n", {0, 160}}});
    node("AttentionKeyLengthsTokenMajor", str_cat(token_major, ", %n: i64[2]"),
         "Attention(%q, %k, %v, _, %n) {scale = 0.088, layout = \"bshd\"}", types, -2, 2,
         {{"n", {1, 160}}});
    node("AttentionCausalLengths", str_cat(qkv, ", %n: i64[2]"),
         "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\", is_causal = 1}", types,
         -2, 2, {{"n", {0, 160}}});
    node("AttentionNoKeys", str_cat(qkv, ", %n: i64[2]"),
         "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\"}", types, -2, 2,
         {{"n", {0, 0}}});
    for (const char* sizes : {"40", "72", "80", "96", "192"}) {
      node(str_cat("AttentionHead", sizes),
           str_cat("%q: $T[1, 2, 50, ", sizes, "], %k: $T[1, 2, 130, ", sizes,
                   "], %v: $T[1, 2, 130, ", sizes, "]"),
           "Attention(%q, %k, %v) {scale = 0.1, layout = \"bhsd\"}", types, -1, 1);
    }
    // Around the tiles of keys, with enough of them that a split is tried.
    for (const char* keys : {"2048", "2049", "2064", "2175", "2176", "2200", "2303"}) {
      node(str_cat("AttentionKeys", keys),
           str_cat("%q: $T[1, 2, 70, 128], %k: $T[1, 1, ", keys, ", 128], %v: $T[1, 1, ", keys,
                   ", 128]"),
           "Attention(%q, %k, %v) {scale = 0.3, layout = \"bhsd\"}", {"f16", "bf16"}, -1, 1);
    }
    node("AttentionKeysTokenMajor",
         "%q: $T[2, 130, 4, 64], %k: $T[2, 2100, 2, 64], %v: $T[2, 2100, 2, 64]",
         "Attention(%q, %k, %v) {scale = 0.3, layout = \"bshd\"}", {"f16", "bf16"}, -1, 1);
  }
};

}  // namespace

const std::vector<OperatorCase>& operator_cases() {
  static const Table table;
  return table.cases;
}

}  // namespace tutti::cuda
