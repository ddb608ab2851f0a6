#include "case_table.h"

namespace tutti::cuda {
namespace {

void movement(CaseTable& table) {
  table.node("Transpose", "%x: $T[2, 3, 4, 5]", "Transpose(%x) {perm = [2, 0, 3, 1]}", kWidths);
  table.node("TransposeRows", "%x: $T[2, 6, 4, 16]", "Transpose(%x) {perm = [0, 2, 1, 3]}",
             kWidths);
  table.node("TransposeMatrix", "%x: $T[33, 65]", "Transpose(%x) {perm = [1, 0]}", kWidths);
  table.node("Expand", "%x: $T[3, 1, 5]", "Expand(%x) {shape = dims[2, 3, 4, 5]}", kWidths);
  table.node("Slice", "%x: $T[6, 7, 8]",
             "Slice(%x) {axes = [0, 2], starts = dims[1, 2], ends = dims[5, 8], steps = [1, 1]}",
             kWidths);
  table.node("SliceSteps", "%x: $T[9, 10]",
             "Slice(%x) {axes = [0, 1], starts = dims[8, 1], ends = dims[-1, 10], steps = [-2, 3]}",
             kWidths);
  table.node("Tile", "%x: $T[2, 3]", "Tile(%x) {repeats = dims[3, 2]}", kWidths);
  table.add("Concat",
            "graph (%a: $T[2, 3, 4], %b: $T[2, 1, 4], %c: $T[2, 5, 4]) { %y = Concat(%a, %b, %c) "
            "{axis = 1} return %y }",
            kWidths);
  table.add("Split",
            "graph (%x: $T[2, 9, 4]) { %a, %b, %c = Split(%x) {axis = 1, sizes = dims[2, 3, 4]} "
            "return %a, %b, %c }",
            kWidths);
  table.node(
      "PadZero", "%x: $T[3, 4]",
      "Pad(%x) {axes = [0, 1], before = dims[1, 2], after = dims[0, 3], mode = \"constant\"}",
      kWidths);
  table.node("PadValue", "%x: $T[3, 4], %v: $T[]",
             "Pad(%x, %v) {axes = [1], before = dims[2], after = dims[1], mode = \"constant\"}",
             kWidths);
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    table.node(str_cat("Pad", mode), "%x: $T[3, 4, 5]",
               str_cat("Pad(%x) {axes = [1, 2], before = dims[2, 1], after = dims[3, 4], mode = \"",
                       mode, "\"}"),
               kWidths);
  }
  table.add(
      "SizesFillIota",
      "graph (%v: $T[], %s: $T[]) { %a = Sizes() {values = dims[3, 4, 5]} %b = Fill(%v) {shape = "
      "dims[3, 7]} %c = Iota(%v, %s) {size = dims[19]} return %a, %b, %c }",
      {"f32", "f64", "i32", "i64", "f16"}, 1, 3);
  table.node("Trilu", "%x: $T[2, 5, 7]", "Trilu(%x) {upper = 1, k = 1}", kWidths);
  table.node("TriluLower", "%x: $T[2, 5, 7]", "Trilu(%x) {upper = 0, k = -2}", kWidths);
  table.node("TriluFar", "%x: $T[4, 4]", "Trilu(%x) {upper = 1, k = -900}", kWidths);
}

void indexed(CaseTable& table) {
  const Types kMoved = {"f32", "bf16", "u8", "i64"};
  for (const char* index : {"i32", "i64"}) {
    const std::string i = index;
    table.node("Gather" + i, str_cat("%x: $T[5, 6, 8], %i: ", i, "[2, 3]"),
               "Gather(%x, %i) {axis = 1}", kMoved, -2, 2, {{"i", {-6, 5}}});
    table.node("GatherFirst" + i, str_cat("%x: $T[50, 3], %i: ", i, "[7]"),
               "Gather(%x, %i) {axis = 0}", kMoved, -2, 2, {{"i", {-50, 49}}});
    table.node("GatherElements" + i, str_cat("%x: $T[5, 6], %i: ", i, "[3, 6]"),
               "GatherElements(%x, %i) {axis = 0}", kMoved, -2, 2, {{"i", {-5, 4}}});
    table.node("ScatterElements" + i, str_cat("%x: $T[5, 6], %i: ", i, "[3, 4], %u: $T[3, 4]"),
               "ScatterElements(%x, %i, %u) {axis = 1}", kMoved, -2, 2, {{"i", {-6, 5}}});
  }
  table.node("GatherScalar", "%x: $T[5, 6], %i: i64[]", "Gather(%x, %i) {axis = 0}", kMoved, -2, 2,
             {{"i", {0, 4}}});
  table.node("GatherND", "%x: $T[2, 3, 4, 5], %i: i64[2, 6, 2]",
             "GatherND(%x, %i) {batch_dims = 1}", kMoved, -2, 2, {{"i", {-3, 2}}});
  table.node("GatherNDWhole", "%x: $T[3, 4], %i: i64[7, 2]", "GatherND(%x, %i)", kMoved, -2, 2,
             {{"i", {-3, 2}}});
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    table.node(str_cat("ScatterElements_", reduction), "%x: $T[5, 6], %i: i64[9, 4], %u: $T[9, 4]",
               str_cat("ScatterElements(%x, %i, %u) {axis = 0, reduction = \"", reduction, "\"}"),
               {"f32", "bf16", "i32", "u8"}, -2, 2, {{"i", {-5, 4}}});
    table.node(str_cat("ScatterND_", reduction), "%x: $T[6, 3], %i: i64[8, 1], %u: $T[8, 3]",
               str_cat("ScatterND(%x, %i, %u) {reduction = \"", reduction, "\"}"),
               {"f32", "bf16", "i32", "u8"}, -2, 2, {{"i", {-6, 5}}});
  }
  table.node("ScatterND", "%x: $T[4, 5, 6], %i: i64[3, 2, 2], %u: $T[3, 2, 6]",
             "ScatterND(%x, %i, %u)", kMoved, -2, 2, {{"i", {-4, 3}}});
}

}  // namespace

void add_movement_cases(CaseTable& table) {
  movement(table);
  indexed(table);
}

}  // namespace tutti::cuda
