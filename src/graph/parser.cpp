#include <algorithm>
#include <charconv>

#include "base/dispatch.h"
#include "graph/append_node.h"
#include "graph/printer.h"
#include "graph/shape_text.h"
#include "graph/text_scanner.h"

namespace tutti {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::int64_t kMaxConstantBytes = std::int64_t{1} << 30;

template <class T>
bool parse_number(std::string_view text, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    *out = text == "true";
    return text == "true" || text == "false";
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    float value = 0;
    if (!parse_number(text, &value)) return false;
    *out = T(value);
    return true;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && end == text.data() + text.size() && !text.empty();
  }
}

struct NamedOutput {
  std::string name;
  std::optional<TensorType> type;
};

class GraphParser {
 public:
  GraphParser(TextScanner* scan, const OpRegistry& registry, int depth)
      : scan_(*scan), registry_(registry), depth_(depth) {}

  Result<std::unique_ptr<Graph>> parse() {
    if (depth_ > kMaxDepth) return scan_.error("less nesting");
    TUTTI_RETURN_IF_ERROR(scan_.expect("graph"));
    graph_ = std::make_unique<Graph>();
    if (scan_.accept("@")) {
      TUTTI_ASSIGN_OR_RETURN(graph_->name, scan_.name());
    }
    TUTTI_RETURN_IF_ERROR(parse_inputs());
    TUTTI_RETURN_IF_ERROR(scan_.expect("{"));
    while (!scan_.accept("return")) TUTTI_RETURN_IF_ERROR(parse_statement());
    TUTTI_RETURN_IF_ERROR(parse_outputs());
    TUTTI_RETURN_IF_ERROR(scan_.expect("}"));
    return std::move(graph_);
  }

 private:
  Status parse_inputs() {
    TUTTI_RETURN_IF_ERROR(scan_.expect("("));
    if (scan_.accept(")")) return Status();
    do {
      TUTTI_ASSIGN_OR_RETURN(const NamedOutput input, parse_output());
      if (!input.type) return scan_.error("': ' and the input's type");
      TUTTI_RETURN_IF_ERROR(check_free(input.name));
      graph_->add_input(input.name, *input.type);
    } while (scan_.accept(","));
    return scan_.expect(")");
  }

  Status parse_outputs() {
    if (scan_.peek("}")) return Status();
    do {
      TUTTI_ASSIGN_OR_RETURN(Value * value, parse_operand());
      if (value == nullptr) return scan_.error("a value to return");
      std::string name = value->name();
      if (scan_.accept("as")) {
        TUTTI_ASSIGN_OR_RETURN(name, scan_.name());
      }
      graph_->add_output(value);
      graph_->output_names.push_back(std::move(name));
    } while (scan_.accept(","));
    return Status();
  }

  // %a: f32[2], %b = Op(%x, _) {attribute = 1} @name, or %c = constant f32[2] [1.0, 2.0]
  Status parse_statement() {
    std::vector<NamedOutput> outputs;
    do {
      TUTTI_ASSIGN_OR_RETURN(NamedOutput output, parse_output());
      outputs.push_back(std::move(output));
    } while (scan_.accept(","));
    TUTTI_RETURN_IF_ERROR(scan_.expect("="));
    if (outputs.size() == 1 && scan_.accept("constant")) {
      TUTTI_RETURN_IF_ERROR(check_free(outputs[0].name));
      TUTTI_ASSIGN_OR_RETURN(Tensor tensor, parse_tensor());
      graph_->add_constant(outputs[0].name, std::move(tensor));
      return Status();
    }
    TUTTI_ASSIGN_OR_RETURN(const std::string type, scan_.word());
    const OpDef* op = registry_.find(type);
    if (op == nullptr) return scan_.error_at(not_found("there is no core operator '", type, "'"));
    TUTTI_ASSIGN_OR_RETURN(std::vector<Value*> inputs, parse_operands());
    TUTTI_ASSIGN_OR_RETURN(AttributeMap attributes, parse_attributes(*op));
    std::string name;
    if (scan_.accept("@")) {
      TUTTI_ASSIGN_OR_RETURN(name, scan_.name());
    }
    return add_node(*op, name, std::move(inputs), std::move(attributes), outputs);
  }

  Status add_node(const OpDef& op, const std::string& name, std::vector<Value*> inputs,
                  AttributeMap attributes, const std::vector<NamedOutput>& outputs) {
    std::vector<std::string> names;
    for (const NamedOutput& output : outputs) names.push_back(output.name);
    Result<Node*> node =
        append_node(graph_.get(), op, name, std::move(inputs), std::move(attributes), names);
    if (!node.ok()) return scan_.error_at(node.status().with_context(op.type));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& inferred = (*node)->output(i)->type();
      if (outputs[i].type && *outputs[i].type != inferred) {
        return scan_.error_at(invalid_argument(op.type, ": '", names[i], "' is written as ",
                                               *outputs[i].type, ", inferred is ", inferred));
      }
    }
    return Status();
  }

  Status check_free(const std::string& name) {
    if (!name.empty() && graph_->find_value(name) == nullptr) return Status();
    return scan_.error_at(invalid_argument("'", name, "' is the name of another value"));
  }

  Result<NamedOutput> parse_output() {
    NamedOutput output;
    TUTTI_RETURN_IF_ERROR(scan_.expect("%"));
    TUTTI_ASSIGN_OR_RETURN(output.name, scan_.name());
    if (scan_.accept(":")) {
      TUTTI_ASSIGN_OR_RETURN(output.type, parse_type());
    }
    return output;
  }

  Result<TensorType> parse_type() {
    const std::string_view text = scan_.until(']');
    if (text.empty()) return scan_.error("a type such as f32[batch, 16]");
    Result<TensorType> type = parse_tensor_type(text);
    if (!type.ok()) return scan_.error_at(type.status());
    return type;
  }

  // Null for `_`, an absent optional operand.
  Result<Value*> parse_operand() {
    if (scan_.accept("_")) return static_cast<Value*>(nullptr);
    TUTTI_RETURN_IF_ERROR(scan_.expect("%"));
    TUTTI_ASSIGN_OR_RETURN(const std::string name, scan_.name());
    Value* value = graph_->find_value(name);
    if (value == nullptr) return scan_.error_at(not_found("'", name, "' is not made before"));
    return value;
  }

  Result<std::vector<Value*>> parse_operands() {
    std::vector<Value*> operands;
    TUTTI_RETURN_IF_ERROR(scan_.expect("("));
    if (scan_.accept(")")) return operands;
    do {
      TUTTI_ASSIGN_OR_RETURN(Value * operand, parse_operand());
      operands.push_back(operand);
    } while (scan_.accept(","));
    TUTTI_RETURN_IF_ERROR(scan_.expect(")"));
    return operands;
  }

  Result<AttributeMap> parse_attributes(const OpDef& op) {
    AttributeMap attributes;
    if (!scan_.accept("{")) return attributes;
    do {
      TUTTI_ASSIGN_OR_RETURN(const std::string name, scan_.word());
      const AttributeSpec* spec = nullptr;
      for (const AttributeSpec& candidate : op.attributes) {
        if (candidate.name == name) spec = &candidate;
      }
      if (spec == nullptr) {
        return scan_.error_at(invalid_argument("attribute '", name, "' is unknown to ", op.type));
      }
      TUTTI_RETURN_IF_ERROR(scan_.expect("="));
      TUTTI_ASSIGN_OR_RETURN(Attribute attribute, parse_attribute(spec->kind));
      attributes.insert_or_assign(name, std::move(attribute));
    } while (scan_.accept(","));
    TUTTI_RETURN_IF_ERROR(scan_.expect("}"));
    return attributes;
  }

  Result<Attribute> parse_attribute(AttributeKind kind) {
    switch (kind) {
      case AttributeKind::kInt: return as_attribute(parse_one<std::int64_t>("an integer"));
      case AttributeKind::kFloat: return as_attribute(parse_one<double>("a number"));
      case AttributeKind::kString: return as_attribute(scan_.quoted());
      case AttributeKind::kInts: return as_attribute(parse_list<std::int64_t>("an integer"));
      case AttributeKind::kFloats: return as_attribute(parse_list<double>("a number"));
      case AttributeKind::kStrings: return as_attribute(parse_strings());
      case AttributeKind::kDims: return as_attribute(parse_dims());
      case AttributeKind::kTensor: return as_attribute(parse_tensor());
      case AttributeKind::kGraph: break;
    }
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                           GraphParser(&scan_, registry_, depth_ + 1).parse());
    return Attribute(std::shared_ptr<const Graph>(std::move(graph)));
  }

  template <class T>
  static Result<Attribute> as_attribute(Result<T> value) {
    if (!value.ok()) return value.status();
    return Attribute(*std::move(value));
  }

  template <class T>
  Result<T> parse_one(std::string_view expected) {
    T value{};
    if (!parse_number(scan_.number(), &value)) return scan_.error(expected);
    return value;
  }

  // bool has no contiguous std::vector, so elements go through a callback.
  template <class F>
  Status parse_bracketed(F&& parse_element) {
    TUTTI_RETURN_IF_ERROR(scan_.expect("["));
    if (scan_.accept("]")) return Status();
    do {
      TUTTI_RETURN_IF_ERROR(parse_element());
    } while (scan_.accept(","));
    return scan_.expect("]");
  }

  template <class T>
  Result<std::vector<T>> parse_list(std::string_view expected) {
    std::vector<T> values;
    TUTTI_RETURN_IF_ERROR(parse_bracketed([&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(const T value, parse_one<T>(expected));
      values.push_back(value);
      return Status();
    }));
    return values;
  }

  Result<std::vector<std::string>> parse_strings() {
    std::vector<std::string> values;
    TUTTI_RETURN_IF_ERROR(parse_bracketed([&]() -> Status {
      TUTTI_ASSIGN_OR_RETURN(std::string value, scan_.quoted());
      values.push_back(std::move(value));
      return Status();
    }));
    return values;
  }

  Result<Shape> parse_dims() {
    if (!scan_.accept("dims")) return scan_.error("sizes such as dims[batch, 2]");
    Result<Shape> shape = parse_shape(scan_.until(']'));
    if (!shape.ok()) return scan_.error_at(shape.status());
    return shape;
  }

  Result<Tensor> parse_tensor() {
    TUTTI_ASSIGN_OR_RETURN(const TensorType type, parse_type());
    const auto dims = to_constant(type.shape);
    if (!dims) return scan_.error("a type with constant sizes");
    const Result<std::int64_t> bytes = checked_byte_size(type.dtype, *dims);
    if (!bytes.ok() || *bytes > kMaxConstantBytes) return scan_.error("a smaller constant");
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(type.dtype, *dims));
    std::fill_n(tensor.mutable_data(), tensor.byte_size(), std::byte{0});
    if (scan_.accept("data")) return tensor;
    TUTTI_RETURN_IF_ERROR(dispatch_dtype(type.dtype, [&](auto tag) -> Status {
      using T = typename decltype(tag)::type;
      T* element = tensor.mutable_data_as<T>();
      T* const end = element + tensor.element_count();
      TUTTI_RETURN_IF_ERROR(parse_bracketed([&]() -> Status {
        if (element == end) return scan_.error("fewer elements");
        if (!parse_number(scan_.number(), element++)) return scan_.error(dtype_name(type.dtype));
        return Status();
      }));
      return element == end ? Status() : scan_.error("more elements");
    }));
    return tensor;
  }

  TextScanner& scan_;
  const OpRegistry& registry_;
  int depth_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace

Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, const OpRegistry& registry) {
  TextScanner scan(text);
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, GraphParser(&scan, registry, 0).parse());
  if (!scan.at_end()) return scan.error("the end");
  return graph;
}

}  // namespace tutti
