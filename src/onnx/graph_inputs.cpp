#include "onnx/graph_inputs.h"

#include <algorithm>
#include <set>

#include "graph/shape_text.h"
#include "onnx.pb.h"
#include "onnx/type_proto.h"

namespace tutti {
namespace {

// "a, b, c", for messages.
std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

Result<GraphInput> declared_input(const onnx::ValueInfoProto& proto, const ReadOptions& options) {
  GraphInput input;
  input.name = proto.name();
  TUTTI_ASSIGN_OR_RETURN(input.type.dtype, element_type_from_proto(proto.type()));
  const auto override_text = options.input_shapes.find(input.name);
  if (override_text != options.input_shapes.end()) {
    TUTTI_ASSIGN_OR_RETURN(input.type.shape, parse_shape(override_text->second));
  } else {
    Result<Shape> shape = shape_from_proto(proto.type(), input.name);
    if (!shape.ok()) {
      return Status(shape.status().code(), str_cat(shape.status().message(),
                                                   " (an input shape given to the compiler "
                                                   "replaces it)"));
    }
    input.type.shape = *std::move(shape);
  }
  const auto bound = options.bound_inputs.find(input.name);
  if (bound != options.bound_inputs.end()) input.content = bound->second;
  return input;
}

// Symbols take the sizes of the content that is bound; two that disagree are an error.
Status bind_symbols(const GraphInput& input, SymbolMap* symbols) {
  const Tensor& content = *input.content;
  if (content.dtype() != input.type.dtype || content.rank() != input.type.shape.size()) {
    return invalid_argument("bound content is ", dtype_name(content.dtype()), content.dims(),
                            ", the model declares ", input.type);
  }
  for (std::size_t i = 0; i < content.rank(); ++i) {
    const std::int64_t size = content.dims()[i];
    const auto symbol = input.type.shape[i].as_symbol();
    if (!symbol) continue;
    const auto [known, inserted] = symbols->emplace(*symbol, size);
    if (!inserted && known->second != size) {
      return invalid_argument("bound content has size ", size, " at dimension ", i, ", but '",
                              *symbol, "' is ", known->second);
    }
  }
  return Status();
}

Status apply_symbols(GraphInput* input, const SymbolMap& symbols) {
  for (std::size_t i = 0; i < input->type.shape.size(); ++i) {
    Dim& dim = input->type.shape[i];
    dim = dim.substitute(symbols);
    if (dim.is_constant() && (dim.constant() < 0 || dim.constant() > kMaxDimSize)) {
      return invalid_argument("dimension ", i, " is ", dim, "; expected a size in [0, ",
                              kMaxDimSize, "]");
    }
    if (input->content && !dim.is(input->content->dims()[i])) {
      return invalid_argument("bound content has size ", input->content->dims()[i],
                              " at dimension ", i, ", the model declares ", dim);
    }
  }
  return check_limits(input->type);
}

// Options that name nothing in the model are mistakes worth telling.
Status check_names(const onnx::GraphProto& graph, const ReadOptions& options) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& proto : graph.input()) names.push_back(proto.name());
  const auto check = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return Status();
    return not_found("the model has no input '", name, "'; its inputs are ", join(names));
  };
  for (const auto& [name, content] : options.bound_inputs) TUTTI_RETURN_IF_ERROR(check(name));
  for (const auto& [name, shape] : options.input_shapes) TUTTI_RETURN_IF_ERROR(check(name));
  return Status();
}

}  // namespace

Result<std::vector<GraphInput>> resolve_inputs(const onnx::GraphProto& graph,
                                               const ReadOptions& options) {
  TUTTI_RETURN_IF_ERROR(check_names(graph, options));
  std::set<std::string> initialized;
  for (const onnx::TensorProto& tensor : graph.initializer()) initialized.insert(tensor.name());

  std::vector<GraphInput> inputs;
  std::vector<std::string> symbol_names;
  SymbolMap symbols = options.bound_dims;
  for (const onnx::ValueInfoProto& proto : graph.input()) {
    if (initialized.contains(proto.name()) && !options.bound_inputs.contains(proto.name())) {
      continue;
    }
    Result<GraphInput> input = declared_input(proto, options);
    Status status = as_status(input);
    if (status.ok()) {
      for (const Dim& dim : input->type.shape) dim.collect_symbols(&symbol_names);
      if (input->content) status = bind_symbols(*input, &symbols);
    }
    if (!status.ok()) return status.with_context(str_cat("input '", proto.name(), "'"));
    inputs.push_back(*std::move(input));
  }
  for (const auto& [name, size] : options.bound_dims) {
    if (std::find(symbol_names.begin(), symbol_names.end(), name) == symbol_names.end()) {
      return not_found("no input has a dimension '", name, "'; the symbolic ones are ",
                       join(symbol_names));
    }
  }
  for (GraphInput& input : inputs) {
    const Status status = apply_symbols(&input, symbols);
    if (!status.ok()) return status.with_context(str_cat("input '", input.name, "'"));
  }
  return inputs;
}

}  // namespace tutti
