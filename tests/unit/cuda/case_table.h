// Where a family's cases are added.
#pragma once

#include "base/str_cat.h"
#include "operator_cases.h"

namespace tutti::cuda {

using Types = std::vector<std::string>;
inline const Types kFloats = {"f32", "f64", "f16", "bf16"};
inline const Types kNumbers = {"f32", "f64", "f16", "bf16", "i8",  "i16",
                               "i32", "i64", "u8",  "u16",  "u32", "u64"};
inline const Types kSigned = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64"};
inline const Types kIntegers = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
inline const Types kWidths = {"u8", "bf16", "f32", "i64", "bool"};

struct CaseTable {
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

  std::vector<OperatorCase> cases;
};

void add_pointwise_cases(CaseTable& table);
void add_reduction_cases(CaseTable& table);  // scans too
void add_movement_cases(CaseTable& table);   // lookups too
void add_product_cases(CaseTable& table);    // convolutions too
void add_norm_cases(CaseTable& table);
void add_attention_cases(CaseTable& table);
void add_fused_cases(CaseTable& table);

}  // namespace tutti::cuda
