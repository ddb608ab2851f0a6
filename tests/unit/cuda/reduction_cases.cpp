#include "case_table.h"

namespace tutti::cuda {
namespace {

void scans(CaseTable& table) {
  for (const char* form : {"exclusive = 0, reverse = 0", "exclusive = 1, reverse = 0",
                           "exclusive = 0, reverse = 1", "exclusive = 1, reverse = 1"}) {
    table.node(str_cat("CumSum ", form), "%x: $T[3, 9, 2]",
               str_cat("CumSum(%x) {axis = 1, ", form, "}"), {"f32", "f64", "bf16", "i32", "i64"});
  }
  for (const char* first : {"batch_axis = 0, time_axis = 1", "batch_axis = 1, time_axis = 0"}) {
    table.node(str_cat("ReverseSequence ", first), "%x: $T[4, 4, 3], %n: i64[4]",
               str_cat("ReverseSequence(%x, %n) {", first, "}"), {"f32", "bf16", "u8"}, -2, 2,
               {{"n", {0, 4}}});
  }
  for (const char* largest : {"1", "0"}) {
    table.add(
        str_cat("TopK", largest),
        str_cat("graph (%x: $T[3, 40, 2]) { %v, %i = TopK(%x) {axis = 1, k = dims[7], largest = ",
                largest, ", sorted = 1} return %v, %i }"),
        {"f32", "bf16", "i32", "u8"}, -30, 30);
  }
  table.add(
      "TopKLong",
      "graph (%x: f32[2, 3000]) { %v, %i = TopK(%x) {axis = 1, k = dims[5], largest = 1, sorted "
      "= 1} return %v, %i }");
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const char* last : {"0", "1"}) {
      table.node(str_cat(op, last), "%x: $T[3, 40, 2]",
                 str_cat(op, "(%x) {axis = 1, keepdims = 1, select_last_index = ", last, "}"),
                 {"f32", "bf16", "i32", "u8"}, -5, 5);
    }
  }
}

void reductions(CaseTable& table) {
  for (const char* kind : {"sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square"}) {
    table.node(str_cat("Reduce_", kind), "%x: $T[3, 5, 7]",
               str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [1], keepdims = 0}"),
               {"f32", "f64", "f16", "bf16", "i32", "i64", "u64"}, 1, 2);
    table.node(str_cat("ReduceInner_", kind), "%x: $T[3, 5, 70]",
               str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [2], keepdims = 1}"),
               {"f32", "f64", "bf16"}, 0.9, 1.1);
    table.node(str_cat("ReduceSome_", kind), "%x: $T[3, 4, 5, 6]",
               str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [0, 2], keepdims = 0}"),
               {"f32", "i32"}, 0.9, 1.1);
  }
  for (const char* kind : {"log_sum", "log_sum_exp"}) {
    table.node(str_cat("Reduce_", kind), "%x: $T[3, 5, 70]",
               str_cat("Reduce(%x) {kind = \"", kind, "\", axes = [2], keepdims = 0}"), kFloats,
               0.5, 2);
  }
  table.node("ReduceAll", "%x: $T[30, 500]",
             "Reduce(%x) {kind = \"sum\", axes = [0, 1], keepdims = 0}", kFloats);
  table.node("ReduceMany", "%x: f32[3000, 12, 4]",
             "Reduce(%x) {kind = \"sum\", axes = [1], keepdims = 0}");
  table.node("ReduceLong", "%x: f32[2, 5000]",
             "Reduce(%x) {kind = \"mean\", axes = [1], keepdims = 0}");
  table.node("ReduceBool", "%x: bool[4, 9]",
             "Reduce(%x) {kind = \"max\", axes = [1], keepdims = 0}");
  table.node("ReduceNothing", "%x: f32[4, 9]",
             "Reduce(%x) {kind = \"sum\", axes = [], keepdims = 0}");
}

}  // namespace

void add_reduction_cases(CaseTable& table) {
  scans(table);
  reductions(table);
}

}  // namespace tutti::cuda
