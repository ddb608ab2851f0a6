#include <map>

#include "compiler/explain.h"

namespace tutti {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string edge_label(const Value& value, const LayoutTable& layouts, const Mesh& mesh) {
  const auto it = layouts.find(value.name());
  if (it == layouts.end()) return value.type().to_string();
  return str_cat(dtype_name(value.dtype()),
                 it->second.layout.to_string(it->second.global.shape, mesh));
}

}  // namespace

std::string to_dot(const Graph& graph, const LayoutTable& layouts, const Mesh& mesh) {
  std::string out =
      "digraph tutti {\n  node [shape=box, fontname=Helvetica, fontsize=10];\n"
      "  edge [fontname=Helvetica, fontsize=8];\n";
  std::map<const Value*, std::string> sources;
  for (const Value* input : graph.inputs()) {
    const std::string id = str_cat("in", sources.size());
    sources[input] = id;
    out += str_cat("  ", id, " [shape=ellipse, label=", quoted(input->name()), "];\n");
  }
  int number = 0;
  for (const auto& node : graph.nodes()) {
    const std::string id = str_cat("n", number++);
    for (const Value* output : node->outputs()) sources[output] = id;
    const bool is_exchange = node->op().is_exchange;
    out += str_cat("  ", id, " [label=", quoted(str_cat(node->type(), "\n", node->name())),
                   is_exchange ? ", style=filled, fillcolor=gold" : "", "];\n");
    for (const Value* input : node->inputs()) {
      if (input == nullptr || input->is_constant()) continue;
      out += str_cat("  ", sources.at(input), " -> ", id,
                     " [label=", quoted(edge_label(*input, layouts, mesh)), "];\n");
    }
  }
  number = 0;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* value = graph.outputs()[i];
    const std::string name = i < graph.output_names.size() ? graph.output_names[i] : value->name();
    out += str_cat("  out", number, " [shape=ellipse, label=", quoted(name), "];\n");
    if (const auto it = sources.find(value); it != sources.end()) {
      out += str_cat("  ", it->second, " -> out", number,
                     " [label=", quoted(edge_label(*value, layouts, mesh)), "];\n");
    }
    ++number;
  }
  return out + "}\n";
}

}  // namespace tutti
