#include "graph/printer.h"

#include <charconv>
#include <cmath>

#include "base/dispatch.h"
#include "graph/text_form.h"

namespace tutti {
namespace {

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return number_text(static_cast<float>(value));
  } else {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
    std::string text(buffer, end);
    // "2" would read back as an integer.
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
}

template <class List, class F>
std::string list_text(const List& list, F&& text_of) {
  std::string text = "[";
  for (const auto& element : list) {
    if (text.size() > 1) text += ", ";
    text += text_of(element);
  }
  return text + "]";
}

std::string elements_text(const Tensor& tensor) {
  std::string text;
  const Status status = dispatch_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto count = static_cast<std::size_t>(tensor.element_count());
    text = list_text(std::span<const T>(tensor.data_as<T>(), count),
                     [](const T& element) { return number_text(element); });
    return Status();
  });
  return status.ok() ? text : "data";
}

std::string tensor_text(const Tensor& tensor) {
  const TensorType type{tensor.dtype(), to_shape(tensor.dims())};
  const bool small = tensor.element_count() <= kMaxPrintedElements;
  return str_cat(type, " ", small ? elements_text(tensor) : "data");
}

void print_graph(const Graph& graph, int indent, std::string* out);

struct AttributePrinter {
  int indent;

  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return list_text(values, number_text<std::int64_t>);
  }
  std::string operator()(const std::vector<double>& values) const {
    return list_text(values, number_text<double>);
  }
  std::string operator()(const std::vector<std::string>& values) const {
    return list_text(values, quote);
  }
  std::string operator()(const Shape& values) const { return str_cat("dims", values); }
  std::string operator()(const Tensor& tensor) const { return tensor_text(tensor); }
  std::string operator()(const std::shared_ptr<const Graph>& graph) const {
    std::string text;
    print_graph(*graph, indent, &text);
    return text;
  }
};

std::string value_text(const Value* value) {
  return value == nullptr ? "_" : "%" + name_text(value->name());
}

std::string typed_value_text(const Value* value) {
  return str_cat(value_text(value), ": ", value->type());
}

std::string node_text(const Node& node, int indent) {
  std::string text;
  for (const Value* output : node.outputs()) {
    text += (text.empty() ? "" : ", ") + typed_value_text(output);
  }
  text += " = " + node.type() + "(";
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    text += (i > 0 ? ", " : "") + value_text(node.inputs()[i]);
  }
  text += ")";
  const char* separator = " {";
  for (const auto& [name, attribute] : node.attributes()) {
    text += separator + name + " = " + std::visit(AttributePrinter{indent}, attribute);
    separator = ", ";
  }
  if (!node.attributes().empty()) text += "}";
  if (!node.name().empty()) text += " @" + name_text(node.name());
  return text;
}

void print_graph(const Graph& graph, int indent, std::string* out) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  const std::string inner = margin + "  ";
  *out += "graph ";
  if (!graph.name.empty()) *out += "@" + name_text(graph.name) + " ";
  *out += "(";
  for (const Value* input : graph.inputs()) {
    *out += (input == graph.inputs().front() ? "" : ", ") + typed_value_text(input);
  }
  *out += ") {\n";
  for (const Value* constant : graph.constants()) {
    *out +=
        inner + value_text(constant) + " = constant " + tensor_text(constant->constant()) + "\n";
  }
  for (const auto& node : graph.nodes()) *out += inner + node_text(*node, indent + 2) + "\n";
  *out += inner + "return";
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* output = graph.outputs()[i];
    *out += (i > 0 ? ", " : " ") + value_text(output);
    if (i < graph.output_names.size() && graph.output_names[i] != output->name()) {
      *out += " as " + name_text(graph.output_names[i]);
    }
  }
  *out += "\n" + margin + "}";
}

}  // namespace

std::string print(const Graph& graph) {
  std::string text;
  print_graph(graph, 0, &text);
  return text + "\n";
}

}  // namespace tutti
