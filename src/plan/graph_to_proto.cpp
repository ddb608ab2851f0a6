#include <algorithm>
#include <cmath>

#include "onnx.pb.h"
#include "onnx/tensor_proto.h"
#include "onnx/type_proto.h"
#include "plan/graph_proto.h"
#include "plan/plan_names.h"
#include "plan/sharding_to_proto.h"

namespace tutti {
namespace {

// ONNX keeps 32-bit floats in attributes. A double that is none stands as a tensor.
bool is_float(double value) {
  return std::isnan(value) || static_cast<double>(static_cast<float>(value)) == value;
}

Status check_size_text(const Dim& dim) {
  const Result<Dim> read = parse_dim(dim.to_string());
  if (read.ok() && *read == dim) return Status();
  return internal_error("size ", dim, " does not read back from its text");
}

class GraphWriter {
 public:
  explicit GraphWriter(const GraphTarget& target) : target_(target) {}

  Status write(const Graph& graph, onnx::GraphProto* proto) {
    proto->set_name(graph.name.empty() ? kNoGraphName : graph.name);
    for (const Value* input : graph.inputs()) {
      TUTTI_RETURN_IF_ERROR(write_value(*input, proto->add_input()));
    }
    for (const Value* constant : graph.constants()) {
      onnx::TensorProto* tensor = proto->add_initializer();
      TUTTI_RETURN_IF_ERROR(write_tensor(constant->constant(), tensor));
      tensor->set_name(constant->name());
    }
    for (const auto& node : graph.nodes()) {
      const Status status = write_node(*node, proto);
      if (!status.ok()) return status.with_context(node->describe());
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value& output = *graph.outputs()[i];
      onnx::ValueInfoProto* info = proto->add_output();
      TUTTI_RETURN_IF_ERROR(write_value(output, info));
      if (i < graph.output_names.size() && graph.output_names[i] != output.name()) {
        onnx::StringStringEntryProto* entry = info->add_metadata_props();
        entry->set_key(kOutputNameKey);
        entry->set_value(graph.output_names[i]);
      }
    }
    return Status();
  }

 private:
  Status write_value(const Value& value, onnx::ValueInfoProto* proto) {
    for (const Dim& dim : value.shape()) {
      const Status status = check_size_text(dim);
      if (!status.ok()) return status.with_context(str_cat("value '", value.name(), "'"));
    }
    value_to_proto(value.name(), value.type(), proto);
    return Status();
  }

  Status write_tensor(const Tensor& tensor, onnx::TensorProto* proto) {
    if (tensor.byte_size() <= kMaxInlineBytes) {
      tensor_to_proto(tensor, proto);
      return Status();
    }
    proto->set_data_type(dtype_to_onnx(tensor.dtype()));
    for (const std::int64_t size : tensor.dims()) proto->add_dims(size);
    TUTTI_ASSIGN_OR_RETURN(const std::uint64_t offset, target_.data->add(tensor));
    proto->set_data_location(onnx::TensorProto::EXTERNAL);
    const auto add = [&](const char* key, std::string value) {
      onnx::StringStringEntryProto* entry = proto->add_external_data();
      entry->set_key(key);
      entry->set_value(std::move(value));
    };
    add("location", target_.data_name);
    add("offset", std::to_string(offset));
    add("length", std::to_string(tensor.byte_size()));
    return Status();
  }

  Status write_node(const Node& node, onnx::GraphProto* graph) {
    const int count = static_cast<int>(node.outputs().size());
    TUTTI_RETURN_IF_ERROR(check_attributes(node.op(), node.attributes()));
    TUTTI_ASSIGN_OR_RETURN(const std::vector<TensorType> types, node.op().infer(node, count));
    onnx::NodeProto* proto = graph->add_node();
    proto->set_op_type(node.type());
    proto->set_domain(node.op().domain);
    proto->set_name(node.name());
    for (const Value* input : node.inputs()) {
      proto->add_input(input == nullptr ? std::string() : input->name());
    }
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      const Value& output = *node.outputs()[i];
      if (types[i] != output.type()) {
        return internal_error("output '", output.name(), "' is ", output.type(), ", inferred is ",
                              types[i]);
      }
      proto->add_output(output.name());
      TUTTI_RETURN_IF_ERROR(write_value(output, graph->add_value_info()));
    }
    shardings_to_proto(node, target_.layouts, target_.mesh, proto);
    for (const auto& [name, attribute] : node.attributes()) {
      onnx::AttributeProto* out = proto->add_attribute();
      out->set_name(name);
      TUTTI_RETURN_IF_ERROR(
          std::visit([&](const auto& value) { return write_attribute(value, out); }, attribute));
    }
    return Status();
  }

  Status write_attribute(std::int64_t value, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::INT);
    out->set_i(value);
    return Status();
  }
  Status write_attribute(double value, onnx::AttributeProto* out) {
    if (!is_float(value)) {
      return write_attribute(Tensor::of<double>({}, std::span(&value, 1)), out);
    }
    out->set_type(onnx::AttributeProto::FLOAT);
    out->set_f(static_cast<float>(value));
    return Status();
  }
  Status write_attribute(const std::string& value, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::STRING);
    out->set_s(value);
    return Status();
  }
  Status write_attribute(const std::vector<std::int64_t>& values, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::INTS);
    out->mutable_ints()->Add(values.begin(), values.end());
    return Status();
  }
  Status write_attribute(const std::vector<double>& values, onnx::AttributeProto* out) {
    if (!std::all_of(values.begin(), values.end(), is_float)) {
      const Dims dims{static_cast<std::int64_t>(values.size())};
      return write_attribute(Tensor::of<double>(dims, values), out);
    }
    out->set_type(onnx::AttributeProto::FLOATS);
    for (const double value : values) out->add_floats(static_cast<float>(value));
    return Status();
  }
  Status write_attribute(const std::vector<std::string>& values, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) out->add_strings(value);
    return Status();
  }
  Status write_attribute(const Shape& sizes, onnx::AttributeProto* out) {
    if (const auto constants = to_constant(sizes)) return write_attribute(*constants, out);
    out->set_type(onnx::AttributeProto::STRINGS);
    for (const Dim& size : sizes) {
      TUTTI_RETURN_IF_ERROR(check_size_text(size));
      out->add_strings(size.to_string());
    }
    return Status();
  }
  Status write_attribute(const Tensor& tensor, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::TENSOR);
    return write_tensor(tensor, out->mutable_t());
  }
  Status write_attribute(const std::shared_ptr<const Graph>& graph, onnx::AttributeProto* out) {
    out->set_type(onnx::AttributeProto::GRAPH);
    return write(*graph, out->mutable_g());
  }

  const GraphTarget& target_;
};

}  // namespace

void value_to_proto(const std::string& name, const TensorType& type, onnx::ValueInfoProto* proto) {
  proto->set_name(name);
  type_to_proto(type, proto->mutable_type());
}

Status graph_to_proto(const Graph& graph, const GraphTarget& target, onnx::GraphProto* proto) {
  return GraphWriter(target).write(graph, proto);
}

}  // namespace tutti
