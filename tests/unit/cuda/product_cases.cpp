#include "case_table.h"

namespace tutti::cuda {
namespace {

void products(CaseTable& table) {
  table.node("MatMul", "%x: $T[17, 33], %z: $T[33, 40]", "MatMul(%x, %z)", kFloats);
  table.node("MatMulInteger", "%x: $T[17, 33], %z: $T[33, 40]", "MatMul(%x, %z)",
             {"i32", "i64", "u32"}, -3, 3);
  table.node("MatMulBatched", "%x: $T[3, 2, 5, 8], %z: $T[3, 2, 8, 6]", "MatMul(%x, %z)", kFloats);
  table.node("MatMulSharedRight", "%x: $T[3, 2, 5, 8], %z: $T[8, 6]", "MatMul(%x, %z)", kFloats);
  table.node("MatMulSharedLeft", "%x: $T[5, 8], %z: $T[3, 2, 8, 6]", "MatMul(%x, %z)", kFloats);
  table.node("MatMulBroadcast", "%x: $T[3, 1, 5, 8], %z: $T[1, 2, 8, 6]", "MatMul(%x, %z)",
             kFloats);
  table.node("MatMulOddBatch", "%x: $T[4, 3, 5], %z: $T[4, 5, 7]", "MatMul(%x, %z)", kFloats);
  table.node("MatMulRow", "%x: $T[1, 64], %z: $T[64, 128]", "MatMul(%x, %z)", kFloats);
  for (const char* activation : {"", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}) {
    const std::string attributes = str_cat("{transpose_w = 0, activation = \"", activation, "\"}");
    table.node(str_cat("Linear_", activation), "%x: $T[2, 9, 32], %w: $T[32, 48]",
               "Linear(%x, %w) " + attributes, {"f32", "bf16"}, -1, 1);
    table.node(str_cat("LinearBias_", activation), "%x: $T[2, 9, 32], %w: $T[32, 48], %b: $T[48]",
               "Linear(%x, %w, %b) " + attributes, kFloats, -1, 1);
    table.node(str_cat("LinearAll_", activation),
               "%x: $T[2, 9, 32], %w: $T[32, 48], %b: $T[48], %r: $T[2, 9, 48]",
               "Linear(%x, %w, %b, %r) " + attributes, kFloats, -1, 1);
  }
  table.node("LinearTransposed", "%x: $T[7, 24], %w: $T[40, 24], %b: $T[40]",
             "Linear(%x, %w, %b) {transpose_w = 1, activation = \"\"}", kFloats, -1, 1);
  table.node("LinearResidual", "%x: $T[7, 24], %w: $T[40, 24], %r: $T[7, 40]",
             "Linear(%x, %w, _, %r) {transpose_w = 1, activation = \"\"}", kFloats, -1, 1);
  table.node("LinearOdd", "%x: $T[7, 13], %w: $T[13, 5], %b: $T[5]",
             "Linear(%x, %w, %b) {transpose_w = 0, activation = \"relu\"}", kFloats, -1, 1);
}

void convolutions(CaseTable& table) {
  const Types types = {"f32", "f64", "f16", "bf16"};
  table.node("Conv1", "%x: $T[2, 4, 11], %w: $T[6, 4, 3], %b: $T[6]",
             "Conv(%x, %w, %b) {strides = [2], pads = [1, 0], dilations = [1], group = 1}", types);
  table.node("Conv2", "%x: $T[2, 4, 9, 8], %w: $T[6, 2, 3, 2]",
             "Conv(%x, %w) {strides = [1, 2], pads = [1, 0, 2, 1], dilations = [2, 1], group = 2}",
             types);
  table.node(
      "Conv3", "%x: $T[1, 3, 4, 5, 6], %w: $T[4, 3, 3, 3, 3], %b: $T[4]",
      "Conv(%x, %w, %b) {strides = [1, 1, 1], pads = [1, 1, 1, 1, 1, 1], dilations = [1, 1, 1], "
      "group = 1}",
      types);
  table.node(
      "ConvTranspose2", "%x: $T[2, 4, 5, 6], %w: $T[4, 3, 3, 2], %b: $T[6]",
      "ConvTranspose(%x, %w, %b) {strides = [2, 3], pads = [1, 0, 0, 1], dilations = [1, 2], "
      "group = 2, output_padding = [1, 0]}",
      types);
  table.node(
      "Conv2Even", "%x: $T[2, 16, 12, 10], %w: $T[24, 16, 3, 3], %b: $T[24]",
      "Conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}",
      types, -1, 1);
  table.node("Conv2Pointwise", "%x: $T[1, 32, 9, 7], %w: $T[8, 32, 1, 1]",
             "Conv(%x, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}",
             types, -1, 1);
  table.node(
      "Conv2Depthwise", "%x: $T[1, 16, 9, 8], %w: $T[16, 1, 3, 3], %b: $T[16]",
      "Conv(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1], group = 16}",
      types, -1, 1);
  table.node(
      "Conv2Grouped", "%x: $T[1, 32, 9, 8], %w: $T[16, 8, 3, 3], %b: $T[16]",
      "Conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 4}",
      types, -1, 1);
  table.node(
      "Conv3Causal", "%x: $T[1, 8, 5, 6, 7], %w: $T[16, 8, 3, 3, 3], %b: $T[16]",
      "Conv(%x, %w, %b) {strides = [1, 1, 1], pads = [2, 1, 1, 0, 1, 1], dilations = [1, 1, 1], "
      "group = 1}",
      types, -1, 1);
  table.node("Conv3Strided", "%x: $T[1, 8, 5, 7, 9], %w: $T[8, 8, 3, 1, 2]",
             "Conv(%x, %w) {strides = [2, 1, 2], pads = [2, 0, 0, 0, 0, 1], dilations = [1, 1, 1], "
             "group = 1}",
             types, -1, 1);
  table.node(
      "ConvTransposeEven", "%x: $T[1, 16, 5, 6], %w: $T[16, 8, 4, 4], %b: $T[8]",
      "ConvTranspose(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1], "
      "group = 1, output_padding = [0, 0]}",
      types, -1, 1);
  table.node("ConvTranspose1", "%x: $T[2, 8, 9], %w: $T[8, 8, 3]",
             "ConvTranspose(%x, %w) {strides = [2], pads = [1, 1], dilations = [1], group = 1, "
             "output_padding = [1]}",
             types, -1, 1);
  table.node(
      "ConvTranspose3", "%x: $T[1, 8, 3, 4, 5], %w: $T[8, 8, 3, 3, 3], %b: $T[8]",
      "ConvTranspose(%x, %w, %b) {strides = [1, 2, 2], pads = [1, 1, 1, 1, 1, 1], dilations = "
      "[1, 1, 1], group = 1, output_padding = [0, 1, 1]}",
      types, -1, 1);
  for (const char* kind : {"max", "average", "lp"}) {
    for (const char* counts : {"0", "1"}) {
      table.node(
          str_cat("Pool_", kind, counts), "%x: $T[2, 3, 9, 8]",
          str_cat("Pool(%x) {kind = \"", kind, "\", kernel_shape = [3, 2], strides = [2, 1], ",
                  "pads = [1, 0, 1, 1], dilations = [1, 1], ceil_mode = 0, count_include_pad = ",
                  counts, ", p = 3}"),
          types, 0.1, 2);
    }
  }
  table.node("PoolCeil", "%x: $T[2, 3, 10]",
             "Pool(%x) {kind = \"average\", kernel_shape = [3], strides = [2], pads = [0, 0], "
             "dilations = [1], ceil_mode = 1, count_include_pad = 0, p = 2}",
             types);
  table.node(
      "PoolMaxInteger", "%x: $T[1, 2, 6, 6]",
      "Pool(%x) {kind = \"max\", kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0], "
      "dilations = [1, 1], ceil_mode = 0, count_include_pad = 0, p = 2}",
      {"i8", "u8"}, -50, 50);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    table.node(str_cat("Resize_", mode), "%x: $T[1, 2, 5, 6]",
               str_cat("Resize(%x) {axes = [2, 3], sizes = dims[9, 4], mode = \"", mode, "\"}"),
               {"f32", "f64", "f16", "bf16", "u8"}, 0, 100);
  }
  table.node("ResizeOneAxis", "%x: $T[1, 2, 5, 6]",
             "Resize(%x) {axes = [3], sizes = dims[13], mode = \"linear\", "
             "coordinate_transformation_mode = \"align_corners\"}",
             {"f32", "bf16"});
  table.node("ResizeAntialias", "%x: f32[1, 1, 12, 12]",
             "Resize(%x) {axes = [2, 3], sizes = dims[5, 5], mode = \"cubic\", antialias = 1}");
}

}  // namespace

void add_product_cases(CaseTable& table) {
  products(table);
  convolutions(table);
}

}  // namespace tutti::cuda
