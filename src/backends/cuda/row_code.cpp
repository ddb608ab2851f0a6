#include "backends/cuda/row_code.h"

#include <algorithm>

namespace tutti::cuda {

std::string RowCode::number(std::int64_t value) {
  const auto found = std::find(numbers.begin(), numbers.end(), value);
  const auto at = found - numbers.begin();
  if (found == numbers.end()) numbers.push_back(value);
  return str_cat("p.n[", at, "]");
}

std::string RowCode::name(const char* prefix) { return str_cat(prefix, count++); }

std::string pack_index(const RowLayout& layout) {
  if (layout.fills_rounds()) return "    const int k = lane + u * TEAM;\n";
  return str_cat("    const bool is_inside = lane + u * TEAM < ", layout.packs(),
                 ";\n    const int k = is_inside ? lane + u * TEAM : ", layout.packs() - 1, ";\n");
}

}  // namespace tutti::cuda
