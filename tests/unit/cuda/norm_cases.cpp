#include "case_table.h"

namespace tutti::cuda {
void add_norm_cases(CaseTable& table) {
  for (const char* shape : {"[6, 5]", "[3, 4, 70]", "[2, 3000]"}) {
    const std::string s = shape;
    const std::string last = s.substr(s.rfind(' ') + 1);
    const std::string axis = s == "[3, 4, 70]" ? "2" : "1";
    table.node("LayerNormalization" + s, str_cat("%x: $T", s, ", %s: $T[", last, ", %b: $T[", last),
               str_cat("LayerNormalization(%x, %s, %b) {axis = ", axis, ", epsilon = 1e-5}"),
               kFloats);
    table.node("RMSNormalization" + s, str_cat("%x: $T", s, ", %s: $T[", last),
               str_cat("RMSNormalization(%x, %s) {axis = ", axis, ", epsilon = 1e-6}"), kFloats);
    table.node("Softmax" + s, str_cat("%x: $T", s), str_cat("Softmax(%x) {axis = ", axis, "}"),
               kFloats, -9, 9);
    table.node("LogSoftmax" + s, str_cat("%x: $T", s),
               str_cat("LogSoftmax(%x) {axis = ", axis, "}"), kFloats, -9, 9);
  }
  table.node("LayerNormalizationBare", "%x: $T[3, 4, 5]",
             "LayerNormalization(%x) {axis = 1, epsilon = 1e-5}", kFloats);
  table.node("LayerNormalizationBiasOnly", "%x: $T[3, 5], %b: $T[5]",
             "LayerNormalization(%x, _, %b) {axis = 1, epsilon = 1e-5}", {"f32", "bf16"});
  table.node("GroupNorm", "%x: $T[2, 6, 5, 7], %s: $T[6], %b: $T[6]",
             "GroupNorm(%x, %s, %b) {groups = 3, epsilon = 1e-5}", kFloats);
  table.node("InstanceNorm", "%x: $T[2, 3, 40]", "GroupNorm(%x) {groups = 3, epsilon = 1e-5}",
             {"f32", "bf16"});
  table.node("SoftmaxInner", "%x: $T[3, 9, 4]", "Softmax(%x) {axis = 1}", kFloats, -5, 5);
  table.node("LogSoftmaxInner", "%x: $T[3, 9, 4]", "LogSoftmax(%x) {axis = 0}", kFloats, -5, 5);
}

}  // namespace tutti::cuda
