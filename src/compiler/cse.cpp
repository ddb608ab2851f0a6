#include <algorithm>
#include <cstring>
#include <map>

#include "compiler/passes.h"

namespace tutti {
namespace {

void append_key(std::string* key, const Attribute& attribute) {
  std::visit(
      [key](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor>) {
          *key += str_cat("tensor ", reinterpret_cast<std::uintptr_t>(value.data()), value.dims());
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>) {
          *key += str_cat("graph ", reinterpret_cast<std::uintptr_t>(value.get()));
        } else {
          *key += str_cat(value);
        }
      },
      attribute);
}

// Equal keys: equal outputs.
std::string node_key(const Node& node) {
  std::string key = str_cat(node.type(), "/", node.outputs().size(), "(");
  for (const Value* input : node.inputs()) key += str_cat(input ? input->name() : "-", ",");
  for (const auto& [name, attribute] : node.attributes()) {
    key += str_cat(";", name, "=", attribute.index(), ":");
    append_key(&key, attribute);
  }
  return key;
}

int merge_constants(Graph& graph) {
  constexpr std::int64_t kMaxBytes = 1 << 16;  // large weights are rarely equal
  int merged = 0;
  std::map<std::string, Value*> seen;
  for (Value* value : graph.constants()) {
    const Tensor& tensor = value->constant();
    if (tensor.dtype() == DType::kString || value->users().empty()) continue;
    if (static_cast<std::int64_t>(tensor.byte_size()) > kMaxBytes) continue;
    std::string key = str_cat(value->type(), ":");
    key.append(reinterpret_cast<const char*>(tensor.data()), tensor.byte_size());
    const auto [it, inserted] = seen.emplace(std::move(key), value);
    if (inserted) continue;
    graph.replace_uses(value, it->second);
    ++merged;
  }
  return merged;
}

}  // namespace

int eliminate_common_subexpressions(Graph& graph) {
  int merged = merge_constants(graph);
  std::map<std::string, const Node*> seen;
  for (const auto& node : graph.nodes()) {
    const auto [it, inserted] = seen.emplace(node_key(*node), node.get());
    if (inserted) continue;
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      graph.replace_uses(node->output(i), it->second->output(i));
    }
    ++merged;
  }
  if (merged > 0) graph.remove_dead();
  return merged;
}

}  // namespace tutti
