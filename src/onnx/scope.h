// What names mean at one place of an ONNX model: in the main graph, a branch or a function body.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"

namespace onnx {
class AttributeProto;
}

namespace tutti {

// Domain ("" is ai.onnx) to version.
using OpsetVersions = std::map<std::string, std::int64_t, std::less<>>;
// What a caller gave a function, by the function's attribute names; resolved, never references.
using FunctionArguments = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

struct Scope {
  const Scope* outer = nullptr;  // the graph around a branch; null for the main graph and functions
  const OpsetVersions* opsets = nullptr;
  const FunctionArguments* arguments = nullptr;  // null outside functions
  std::string prefix;                            // of node and value names: "block0/norm/"
  int depth = 0;                                 // of calls and branches

  // Null: an optional input that the function's caller left out.
  std::unordered_map<std::string, Value*> values;
  // Names that a node, a branch or an output of this graph reads.
  std::unordered_set<std::string> used;

  // Through the enclosing graphs.
  struct Found {
    bool known = false;
    Value* value = nullptr;
  };
  Found find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      const auto it = scope->values.find(name);
      if (it != scope->values.end()) return {true, it->second};
    }
    return {};
  }
};

// "" and "ai.onnx" are the same domain.
inline std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

}  // namespace tutti
