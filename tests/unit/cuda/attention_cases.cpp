#include "case_table.h"

namespace tutti::cuda {
namespace {

// Sizes that cuDNN takes; with f32 ours does the same.
void cudnn_attention(CaseTable& table) {
  const Types types = {"f32", "f16", "bf16"};
  const std::string qkv = "%q: $T[2, 4, 96, 64], %k: $T[2, 2, 160, 64], %v: $T[2, 2, 160, 64]";
  const std::string square = "%q: $T[2, 4, 70, 64], %k: $T[2, 2, 70, 64], %v: $T[2, 2, 70, 64]";
  const std::string token_major =
      "%q: $T[2, 96, 6, 128], %k: $T[2, 160, 3, 128], %v: $T[2, 160, 3, 128]";
  table.node("AttentionGrouped", qkv, "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\"}",
             types);
  table.node("AttentionGroupedTokenMajor", token_major,
             "Attention(%q, %k, %v) {scale = 0.088, layout = \"bshd\"}", types);
  table.node("AttentionOneKeyHead",
             "%q: $T[1, 4, 40, 64], %k: $T[1, 1, 300, 64], %v: $T[1, 1, 300, 64]",
             "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\"}", types);
  for (const char* offset : {"0", "7", "64", "159", "400"}) {
    table.node(str_cat("AttentionCausalFrom", offset), qkv,
               str_cat("Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, "
                       "causal_offset = dims[",
                       offset, "]}"),
               types);
  }
  table.node(
      "AttentionCausalSquare", square,
      "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
      "dims[0]}",
      types);
  table.node(
      "AttentionCausalFew", square,
      "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
      "dims[-20]}",
      types);
  for (const char* mask : {"[2, 1, 96, 160]", "[1, 1, 96, 160]", "[96, 160]", "[1, 4, 96, 160]",
                           "[2, 1, 1, 160]", "[2, 4, 96, 160]"}) {
    table.node(str_cat("AttentionBias", mask), str_cat(qkv, ", %m: $T", mask),
               "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\"}", types);
    table.node(str_cat("AttentionSeen", mask), str_cat(qkv, ", %m: bool", mask),
               "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\"}", types);
  }
  // Rows that see nothing: -inf everywhere where %n is false, and rows whose first keys are shut.
  for (const char* seen : {"[96, 1]", "[1, 1, 1, 160]", "[2, 1, 96, 1]"}) {
    table.add(
        str_cat("AttentionShut", seen),
        str_cat("graph (", qkv, ", %n: bool", seen,
                ", %o: bool[1, 1, 96, 160]) { %s = And(%n, %o) ",
                "%y = Attention(%q, %k, %v, %s) {scale = 0.125, layout = \"bhsd\"} %f = Cast(%s) ",
                "{to = \"$T\"} %l = Log(%f) %z = Attention(%q, %k, %v, %l) {scale = 0.125, layout ",
                "= \"bhsd\"} return %y, %z }"),
        types);
  }
  table.add(
      "AttentionShutTile",
      str_cat("graph (", qkv,
              ", %n: bool[96, 32], %w: $T[]) { %least = Log(%w) %f = Cast(%n) {to = ",
              "\"$T\"} %l = Log(%f) %m = Pad(%l, %least) {axes = [1], before = dims[128], after = ",
              "dims[0], mode = \"constant\"} %y = Attention(%q, %k, %v, %m) {scale = 0.125, ",
              "layout = \"bhsd\"} return %y }"),
      types, -2, 2, {{"w", {0, 0}}});
  table.node("AttentionCausalSeen", str_cat(square, ", %m: bool[70, 70]"),
             "Attention(%q, %k, %v, %m) {scale = 0.125, layout = \"bhsd\", is_causal = 1, "
             "causal_offset = dims[0]}",
             types);
  table.node("AttentionKeyLengths", str_cat(qkv, ", %n: i64[2]"),
             "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\"}", types, -2, 2,
             {{"n", {0, 160}}});
  table.node("AttentionKeyLengthsTokenMajor", str_cat(token_major, ", %n: i64[2]"),
             "Attention(%q, %k, %v, _, %n) {scale = 0.088, layout = \"bshd\"}", types, -2, 2,
             {{"n", {1, 160}}});
  table.node("AttentionCausalLengths", str_cat(qkv, ", %n: i64[2]"),
             "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\", is_causal = 1}",
             types, -2, 2, {{"n", {0, 160}}});
  table.node("AttentionNoKeys", str_cat(qkv, ", %n: i64[2]"),
             "Attention(%q, %k, %v, _, %n) {scale = 0.125, layout = \"bhsd\"}", types, -2, 2,
             {{"n", {0, 0}}});
  for (const char* sizes : {"40", "72", "80", "96", "192"}) {
    table.node(str_cat("AttentionHead", sizes),
               str_cat("%q: $T[1, 2, 50, ", sizes, "], %k: $T[1, 2, 130, ", sizes,
                       "], %v: $T[1, 2, 130, ", sizes, "]"),
               "Attention(%q, %k, %v) {scale = 0.1, layout = \"bhsd\"}", types, -1, 1);
  }
  // Around the tiles of keys, with enough of them that a split is tried.
  for (const char* keys : {"2048", "2049", "2064", "2175", "2176", "2200", "2303"}) {
    table.node(str_cat("AttentionKeys", keys),
               str_cat("%q: $T[1, 2, 70, 128], %k: $T[1, 1, ", keys, ", 128], %v: $T[1, 1, ", keys,
                       ", 128]"),
               "Attention(%q, %k, %v) {scale = 0.3, layout = \"bhsd\"}", {"f16", "bf16"}, -1, 1);
  }
  table.node("AttentionKeysTokenMajor",
             "%q: $T[2, 130, 4, 64], %k: $T[2, 2100, 2, 64], %v: $T[2, 2100, 2, 64]",
             "Attention(%q, %k, %v) {scale = 0.3, layout = \"bshd\"}", {"f16", "bf16"}, -1, 1);
}

}  // namespace

void add_attention_cases(CaseTable& table) {
  const std::string qkv = "%q: $T[2, 4, 70, 16], %k: $T[2, 2, 45, 16], %v: $T[2, 2, 45, 24]";
  table.node("Attention", qkv, "Attention(%q, %k, %v) {scale = 0.25, layout = \"bhsd\"}", kFloats);
  table.node("AttentionTokenMajor",
             "%q: $T[2, 70, 4, 16], %k: $T[2, 45, 2, 16], %v: $T[2, 45, 2, 16]",
             "Attention(%q, %k, %v) {scale = 0.25, layout = \"bshd\"}", kFloats);
  table.node(
      "AttentionCausal", qkv,
      "Attention(%q, %k, %v) {scale = 0.25, layout = \"bhsd\", is_causal = 1, causal_offset = "
      "dims[-3]}",
      kFloats);
  table.node("AttentionSoftcap", qkv,
             "Attention(%q, %k, %v) {scale = 0.5, softcap = 3.0, layout = \"bhsd\"}", kFloats);
  table.node("AttentionMask", qkv + ", %m: $T[2, 1, 70, 45]",
             "Attention(%q, %k, %v, %m) {scale = 0.25, layout = \"bhsd\"}", kFloats);
  table.node("AttentionBoolMask", qkv + ", %m: bool[4, 1, 45]",
             "Attention(%q, %k, %v, %m) {scale = 0.25, layout = \"bhsd\"}", kFloats);
  table.node("AttentionLengths", qkv + ", %n: i64[2]",
             "Attention(%q, %k, %v, _, %n) {scale = 0.25, layout = \"bhsd\", is_causal = 1}",
             kFloats, -2, 2, {{"n", {0, 45}}});
  table.node(
      "AttentionLong", "%q: $T[1, 4, 300, 64], %k: $T[1, 2, 333, 64], %v: $T[1, 2, 333, 32]",
      "Attention(%q, %k, %v) {scale = 0.125, layout = \"bhsd\", is_causal = 1, causal_offset = "
      "dims[40]}",
      kFloats);
  table.node(
      "AttentionLongMask",
      "%q: $T[1, 150, 4, 32], %k: $T[1, 200, 2, 32], %v: $T[1, 200, 2, 48], %m: $T[4, 150, 200]",
      "Attention(%q, %k, %v, %m) {scale = 0.2, layout = \"bshd\"}", kFloats);
  table.node("AttentionHead128",
             "%q: $T[1, 2, 33, 128], %k: $T[1, 2, 40, 128], %v: $T[1, 2, 40, 128]",
             "Attention(%q, %k, %v) {scale = 0.088, layout = \"bhsd\"}", kFloats);
  table.node("AttentionHead256",
             "%q: $T[1, 1, 20, 256], %k: $T[1, 1, 40, 256], %v: $T[1, 1, 40, 256]",
             "Attention(%q, %k, %v) {scale = 0.0625, layout = \"bhsd\"}", {"f32", "f64", "bf16"});
  cudnn_attention(table);
  table.node("AttentionOddHead", "%q: $T[1, 2, 9, 5], %k: $T[1, 2, 3, 5], %v: $T[1, 2, 3, 7]",
             "Attention(%q, %k, %v) {scale = 0.4, layout = \"bhsd\"}", kFloats);
}

}  // namespace tutti::cuda
