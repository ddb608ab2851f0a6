#include <algorithm>
#include <map>

#include "graph/append_node.h"
#include "onnx.pb.h"
#include "onnx/tensor_proto.h"
#include "onnx/type_proto.h"
#include "plan/graph_proto.h"
#include "plan/plan_names.h"

namespace tutti {
namespace {

class GraphReader {
 public:
  GraphReader(const onnx::GraphProto& proto, GraphSource* source)
      : proto_(proto), source_(*source), graph_(std::make_unique<Graph>()) {}

  Result<std::unique_ptr<Graph>> read() {
    if (proto_.name() != kNoGraphName) graph_->name = proto_.name();
    for (const onnx::ValueInfoProto& input : proto_.input()) {
      TUTTI_RETURN_IF_ERROR(check_free(input.name()));
      TUTTI_ASSIGN_OR_RETURN(TensorType type, type_from_value(input));
      graph_->add_input(input.name(), std::move(type));
    }
    for (const onnx::TensorProto& constant : proto_.initializer()) {
      TUTTI_RETURN_IF_ERROR(check_free(constant.name()));
      TUTTI_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(constant));
      graph_->add_constant(constant.name(), std::move(tensor));
    }
    for (const onnx::ValueInfoProto& info : proto_.value_info()) {
      TUTTI_ASSIGN_OR_RETURN(TensorType type, type_from_value(info));
      declared_[info.name()] = std::move(type);
    }
    for (const onnx::NodeProto& node : proto_.node()) {
      const Status status = read_node(node);
      if (!status.ok()) {
        return status.with_context(str_cat("node '", node.name(), "' (", node.op_type(), ")"));
      }
    }
    TUTTI_RETURN_IF_ERROR(read_outputs());
    TUTTI_RETURN_IF_ERROR(graph_->verify());
    return std::move(graph_);
  }

 private:
  Status check_free(const std::string& name) const {
    if (name.empty()) return invalid_argument("a value has no name");
    if (graph_->find_value(name) == nullptr) return Status();
    return invalid_argument("two values have the name '", name, "'");
  }

  Result<Tensor> read_tensor(const onnx::TensorProto& proto) const {
    if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
      TUTTI_ASSIGN_OR_RETURN(const ExternalLocation location, parse_external_location(proto));
      if (location.file != source_.data_name || source_.data_name.empty()) {
        return invalid_argument("tensor '", proto.name(), "' lies in '", location.file,
                                "', which is not the plan's data file");
      }
    }
    return tensor_from_proto(proto, source_.files);
  }

  Status read_node(const onnx::NodeProto& proto) {
    if (source_.nodes_left-- <= 0) return invalid_argument("the plan has too many nodes");
    const OpDef* op = source_.registry.find(proto.op_type());
    if (op == nullptr || op->domain != proto.domain()) {
      return unimplemented("operator ", proto.op_type(), " of domain '", proto.domain(),
                           "' is unknown to this compiler");
    }
    std::vector<Value*> inputs;
    for (const std::string& name : proto.input()) {
      Value* value = name.empty() ? nullptr : graph_->find_value(name);
      if (value == nullptr && !name.empty()) {
        return invalid_argument("input '", name, "' is not made before");
      }
      inputs.push_back(value);
    }
    AttributeMap attributes;
    for (const onnx::AttributeProto& attribute : proto.attribute()) {
      Result<Attribute> read = read_attribute(*op, attribute);
      if (!read.ok()) return read.status().with_context(str_cat("'", attribute.name(), "'"));
      if (!attributes.emplace(attribute.name(), *std::move(read)).second) {
        return invalid_argument("attribute '", attribute.name(), "' is given twice");
      }
    }
    TUTTI_ASSIGN_OR_RETURN(
        const Node* node,
        append_node(graph_.get(), *op, proto.name(), std::move(inputs), std::move(attributes),
                    {proto.output().begin(), proto.output().end()}));
    return check_outputs(*node);
  }

  Status check_outputs(const Node& node) const {
    for (const Value* output : node.outputs()) {
      const auto it = declared_.find(output->name());
      if (it == declared_.end()) {
        return invalid_argument("output '", output->name(), "' has no type in the plan");
      }
      if (it->second != output->type()) {
        return invalid_argument("output '", output->name(), "' is ", it->second,
                                " in the plan, inferred is ", output->type());
      }
    }
    return Status();
  }

  Status read_outputs() {
    for (const onnx::ValueInfoProto& output : proto_.output()) {
      Value* value = graph_->find_value(output.name());
      if (value == nullptr) return invalid_argument("output '", output.name(), "' is never made");
      TUTTI_ASSIGN_OR_RETURN(const TensorType type, type_from_value(output));
      if (type != value->type()) {
        return invalid_argument("output '", output.name(), "' is ", type,
                                " in the plan, inferred is ", value->type());
      }
      std::string name = output.name();
      for (const onnx::StringStringEntryProto& entry : output.metadata_props()) {
        if (entry.key() == kOutputNameKey) name = entry.value();
      }
      graph_->add_output(value);
      graph_->output_names.push_back(std::move(name));
    }
    return Status();
  }

  // The definition says what an attribute is; the file may keep doubles as tensors and sizes as
  // numbers or formulas.
  Result<Attribute> read_attribute(const OpDef& op, const onnx::AttributeProto& proto) {
    const auto spec = std::find_if(
        op.attributes.begin(), op.attributes.end(),
        [&](const AttributeSpec& candidate) { return candidate.name == proto.name(); });
    if (spec == op.attributes.end()) return invalid_argument("is no attribute of ", op.type);
    using onnx::AttributeProto;
    const auto type = proto.type();
    switch (spec->kind) {
      case AttributeKind::kInt:
        if (type == AttributeProto::INT) return Attribute(std::int64_t{proto.i()});
        break;
      case AttributeKind::kFloat:
        if (type == AttributeProto::FLOAT) return Attribute(double{proto.f()});
        if (type == AttributeProto::TENSOR) {
          TUTTI_ASSIGN_OR_RETURN(const std::vector<double> values, read_doubles(proto.t()));
          if (values.size() == 1) return Attribute(values[0]);
        }
        break;
      case AttributeKind::kString:
        if (type == AttributeProto::STRING) return Attribute(proto.s());
        break;
      case AttributeKind::kInts:
        if (type == AttributeProto::INTS) {
          return Attribute(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
        }
        break;
      case AttributeKind::kFloats:
        if (type == AttributeProto::FLOATS) {
          return Attribute(std::vector<double>(proto.floats().begin(), proto.floats().end()));
        }
        if (type == AttributeProto::TENSOR) {
          TUTTI_ASSIGN_OR_RETURN(std::vector<double> values, read_doubles(proto.t()));
          return Attribute(std::move(values));
        }
        break;
      case AttributeKind::kStrings:
        if (type == AttributeProto::STRINGS) {
          return Attribute(
              std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
        }
        break;
      case AttributeKind::kDims:
        if (type == AttributeProto::INTS) {
          return Attribute(Shape(proto.ints().begin(), proto.ints().end()));
        }
        if (type == AttributeProto::STRINGS) return read_sizes(proto);
        break;
      case AttributeKind::kTensor:
        if (type == AttributeProto::TENSOR) {
          TUTTI_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(proto.t()));
          return Attribute(std::move(tensor));
        }
        break;
      case AttributeKind::kGraph:
        if (type == AttributeProto::GRAPH) {
          TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                                 graph_from_proto(proto.g(), &source_));
          return Attribute(std::shared_ptr<const Graph>(std::move(graph)));
        }
        break;
    }
    return invalid_argument("is of kind ", AttributeProto::AttributeType_Name(type),
                            ", which this attribute of ", op.type, " is not");
  }

  Result<std::vector<double>> read_doubles(const onnx::TensorProto& proto) const {
    TUTTI_ASSIGN_OR_RETURN(const Tensor tensor, read_tensor(proto));
    if (tensor.dtype() != DType::kFloat64) return invalid_argument("is no tensor of doubles");
    return tensor.to_doubles();
  }

  static Result<Attribute> read_sizes(const onnx::AttributeProto& proto) {
    Shape sizes;
    for (const std::string& text : proto.strings()) {
      TUTTI_ASSIGN_OR_RETURN(Dim size, parse_dim(text));
      sizes.push_back(std::move(size));
    }
    return Attribute(std::move(sizes));
  }

  const onnx::GraphProto& proto_;
  GraphSource& source_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, TensorType> declared_;
};

}  // namespace

Result<TensorType> type_from_value(const onnx::ValueInfoProto& proto) {
  const auto read = [&]() -> Result<TensorType> {
    TensorType type;
    TUTTI_ASSIGN_OR_RETURN(type.dtype, element_type_from_proto(proto.type()));
    if (!proto.type().tensor_type().has_shape()) return invalid_argument("has no shape");
    for (const auto& dim : proto.type().tensor_type().shape().dim()) {
      if (dim.has_dim_value()) {
        type.shape.emplace_back(dim.dim_value());
      } else {
        TUTTI_ASSIGN_OR_RETURN(Dim size, parse_dim(dim.dim_param()));
        type.shape.push_back(std::move(size));
      }
    }
    TUTTI_RETURN_IF_ERROR(check_limits(type));
    return type;
  };
  Result<TensorType> type = read();
  if (type.ok()) return type;
  return type.status().with_context(str_cat("value '", proto.name(), "'"));
}

Result<std::unique_ptr<Graph>> graph_from_proto(const onnx::GraphProto& proto,
                                                GraphSource* source) {
  return GraphReader(proto, source).read();
}

}  // namespace tutti
