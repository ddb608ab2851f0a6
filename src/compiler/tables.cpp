#include "compiler/tables.h"

#include <algorithm>

namespace tutti {

bool is_projection(const Node& node) {
  const std::string& type = node.type();
  return type == "MatMul" || type == "Linear" || type == "Conv" || type == "ConvTranspose" ||
         type == "Attention";
}

bool Tables::contains(const Value* value) {
  const Node* node = value->producer();
  if (node == nullptr) return true;
  if (const auto it = known_.find(value); it != known_.end()) return it->second;
  const bool is_table =
      !is_projection(*node) &&
      std::all_of(node->inputs().begin(), node->inputs().end(),
                  [&](const Value* input) { return input == nullptr || contains(input); });
  known_.emplace(value, is_table);
  return is_table;
}

}  // namespace tutti
