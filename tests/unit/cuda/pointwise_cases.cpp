#include "case_table.h"

namespace tutti::cuda {
void add_pointwise_cases(CaseTable& table) {
  for (const char* op : {"Abs", "Sign", "Relu"}) {
    table.node(op, "%x: $T[3, 37]", str_cat(op, "(%x)"), kNumbers, -20, 20);
  }
  table.node("Neg", "%x: $T[3, 37]", "Neg(%x)", kSigned, -20, 20);
  for (const char* op :
       {"Ceil",     "Cos",      "Erf",  "Floor",     "Round", "Sin",       "Sinh",
        "Cosh",     "Tan",      "Atan", "Asinh",     "Tanh",  "Exp",       "Sigmoid",
        "Softplus", "Softsign", "Silu", "HardSwish", "Mish",  "Reciprocal"}) {
    table.node(op, "%x: $T[5, 16]", str_cat(op, "(%x)"), kFloats, -3.25, 3.5);
  }
  for (const char* op : {"Acos", "Asin", "Atanh"}) {
    table.node(op, "%x: $T[77]", str_cat(op, "(%x)"), {"f32", "f64"}, -0.9, 0.9);
  }
  table.node("Acosh", "%x: $T[77]", "Acosh(%x)", {"f32", "f64"}, 1.1, 4);
  table.node("Sqrt", "%x: $T[77]", "Sqrt(%x)", kFloats, 0.1, 9);
  table.node("Log", "%x: $T[77]", "Log(%x)", kFloats, 0.1, 9);
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "PRelu"}) {
    table.node(op, "%x: $T[2, 3, 8], %z: $T[2, 3, 8]", str_cat(op, "(%x, %z)"), kNumbers, -9, 9);
  }
  for (const char* op : {"Div", "Fmod", "FloorMod"}) {
    table.node(op, "%x: $T[6, 8], %z: $T[6, 8]", str_cat(op, "(%x, %z)"), kNumbers, 1, 50);
    table.node(str_cat(op, "Negative"), "%x: $T[6, 8], %z: $T[6, 8]", str_cat(op, "(%x, %z)"),
               {"i32", "i64", "i8"}, -50, 50);
  }
  table.node("Pow", "%x: $T[40], %z: $T[40]", "Pow(%x, %z)", {"f32", "f64", "bf16"}, 0.5, 3);
  table.node("PowInteger", "%x: $T[40], %z: $T[40]", "Pow(%x, %z)", {"i32", "i64", "u8"}, -3, 4);
  for (const char* exponent : {"1", "2", "3", "0.5", "-0.5", "-1", "1.7"}) {
    table.add(str_cat("PowConstant", exponent),
              str_cat("graph (%x: f32[40]) { %k = constant f32[] [", exponent,
                      "] %y = Pow(%x, %k) return %y }"),
              {"f32"}, 0.5, 3);
  }
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    table.node(op, "%x: $T[3, 20], %z: $T[3, 20]", str_cat(op, "(%x, %z)"),
               {"f32", "bf16", "i32", "i64", "u8"}, -2, 2);
  }
  table.node("EqualBool", "%x: bool[50], %z: bool[50]", "Equal(%x, %z)");
  for (const char* op : {"And", "Or", "Xor"}) {
    table.node(op, "%x: bool[3, 20], %z: bool[20]", str_cat(op, "(%x, %z)"));
  }
  table.node("Not", "%x: bool[50]", "Not(%x)");
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    table.node(op, "%x: $T[50], %z: $T[50]", str_cat(op, "(%x, %z)"), kIntegers, 0, 100);
  }
  table.node("BitwiseNot", "%x: $T[50]", "BitwiseNot(%x)", kIntegers, 0, 100);
  table.node("ShiftLeft", "%x: $T[50], %z: $T[50]", "BitShift(%x, %z) {direction = \"LEFT\"}",
             kIntegers, 0, 9);
  table.node("ShiftRight", "%x: $T[50], %z: $T[50]", "BitShift(%x, %z) {direction = \"RIGHT\"}",
             kIntegers, 0, 9);
  table.node("Where", "%c: bool[3, 1, 5], %x: $T[4, 5], %z: $T[3, 4, 1]", "Where(%c, %x, %z)",
             kWidths);
  table.add("IsInfIsNaN",
            "graph (%x: $T[9]) { %s = Sub(%x, %x) %d = Div(%x, %s) %n = Div(%s, %s) %a = IsInf(%d) "
            "{detect_negative = 0} %b = IsInf(%d) %c = IsNaN(%n) return %a, %b, %c }",
            kFloats);
  table.node("Gelu", "%x: $T[64]", "Gelu(%x)", kFloats, -4, 4);
  table.node("GeluTanh", "%x: $T[64]", "Gelu(%x) {approximate = \"tanh\"}", kFloats, -4, 4);
  for (const char* op : {"Elu", "Celu", "ThresholdedRelu", "LeakyRelu"}) {
    table.node(op, "%x: $T[64]", str_cat(op, "(%x) {alpha = 0.7}"), {"f32", "bf16"});
  }
  table.node("HardSigmoid", "%x: $T[64]", "HardSigmoid(%x) {alpha = 0.3, beta = 0.4}", kFloats);
  table.node("Selu", "%x: $T[64]", "Selu(%x) {alpha = 1.67, gamma = 1.05}", kFloats);
  table.node("Clip", "%x: $T[64]", "Clip(%x) {min = -1.5, max = 7.0}", kNumbers, -20, 20);
  table.node("ClipMin", "%x: $T[64]", "Clip(%x) {min = 0.5}", {"f32", "i64", "u64"}, 0, 20);
  for (const std::string to : {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"}) {
    table.node("CastTo" + to, "%x: $T[3, 21]", str_cat("Cast(%x) {to = \"", to, "\"}"),
               {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "bool"}, 0, 90);
    table.node("CastNegativeTo" + to, "%x: $T[3, 21]", str_cat("Cast(%x) {to = \"", to, "\"}"),
               {"f32", "f64", "bf16", "i32", "i64"}, -90, 90);
  }
  table.node("CastToBool", "%x: $T[64]", "Cast(%x) {to = \"bool\"}", {"f32", "bf16", "i64", "u8"},
             -1, 1);
  // Broadcasting in every way: packs, rows, columns, scalars, several dimensions.
  table.node("BroadcastRow", "%x: $T[6, 32], %z: $T[32]", "Mul(%x, %z)",
             {"f32", "bf16", "u8", "f64"});
  table.node("BroadcastColumn", "%x: $T[6, 32], %z: $T[6, 1]", "Mul(%x, %z)",
             {"f32", "bf16", "f64"});
  table.node("BroadcastScalar", "%x: $T[6, 32], %z: $T[]", "Add(%x, %z)", kFloats);
  table.node("BroadcastBoth", "%x: $T[6, 1, 5], %z: $T[1, 7, 1]", "Sub(%x, %z)", kFloats);
  table.node("BroadcastMiddle", "%x: $T[2, 3, 4, 8], %z: $T[3, 1, 8]", "Add(%x, %z)",
             {"f32", "bf16"});
  table.node("BroadcastOdd", "%x: $T[3, 1, 7], %z: $T[5, 7]", "Add(%x, %z)", {"f32", "bf16"});
  table.node("Scalars", "%x: $T[], %z: $T[]", "Add(%x, %z)", kFloats);
  table.add("Region",
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
  table.add("RegionPassesInputsOn",
            R"(graph (%x: f32[4, 4], %z: f32[4]) {
        %a, %b, %c = Pointwise(%x, %z) {body = graph (%p: f32[], %q: f32[]) {
          %k = constant f32[] [3.5]
          %t = Add(%p, %q)
          return %t, %t, %k
        }}
        return %a, %b, %c
      })");
}

}  // namespace tutti::cuda
