#include "onnx/device_annotations.h"

#include <algorithm>
#include <set>

#include "onnx.pb.h"

namespace tutti {
namespace {

Result<ShardedDim> read_sharded_dim(const onnx::ShardedDimProto& proto) {
  if (!proto.has_axis()) return invalid_argument("a sharded dimension has no axis");
  ShardedDim dim;
  dim.axis = proto.axis();
  if (proto.simple_sharding().empty()) {
    return invalid_argument("dimension ", dim.axis, " does not say in how many shards it is cut");
  }
  for (const onnx::SimpleShardedDimProto& simple : proto.simple_sharding()) {
    ShardedDim::Cut cut;
    cut.num_shards = simple.num_shards();
    if (cut.num_shards < 1) {
      return invalid_argument("dimension ", dim.axis, " is cut into ", cut.num_shards,
                              " shards, expected 1 or more");
    }
    if (simple.has_dim_value()) cut.size = Dim(simple.dim_value());
    if (simple.has_dim_param()) {
      auto size = parse_dim(simple.dim_param());
      if (!size.ok()) return size.status().with_context(str_cat("dimension ", dim.axis));
      cut.size = *size;
    }
    if (!cut.size && proto.simple_sharding_size() > 1) {
      return invalid_argument("dimension ", dim.axis, " is fused of ", proto.simple_sharding_size(),
                              " parts, one of which has no size");
    }
    dim.cuts.push_back(std::move(cut));
  }
  return dim;
}

Result<ShardingSpec> read_sharding_spec(const onnx::ShardingSpecProto& proto) {
  ShardingSpec spec;
  spec.tensor = proto.tensor_name();
  spec.devices.assign(proto.device().begin(), proto.device().end());
  for (const onnx::IntIntListEntryProto& entry : proto.index_to_device_group_map()) {
    const std::vector<std::int64_t> members(entry.value().begin(), entry.value().end());
    if (!spec.groups.emplace(entry.key(), members).second) {
      return invalid_argument("lists the device group ", entry.key(), " twice");
    }
  }
  std::set<std::int64_t> axes;
  for (const onnx::ShardedDimProto& dim : proto.sharded_dim()) {
    TUTTI_ASSIGN_OR_RETURN(ShardedDim read, read_sharded_dim(dim));
    if (!axes.insert(read.axis).second) {
      return invalid_argument("cuts dimension ", read.axis, " twice");
    }
    spec.dims.push_back(std::move(read));
  }
  return spec;
}

std::string name_of(const onnx::NodeProto& node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

Result<DeviceConfiguration> read_configuration(const onnx::DeviceConfigurationProto& proto) {
  DeviceConfiguration read{
      proto.name(), proto.num_devices(), {proto.device().begin(), proto.device().end()}};
  if (read.num_devices < 1) {
    return invalid_argument("device configuration '", read.name, "' has ", read.num_devices,
                            " devices, expected 1 or more");
  }
  const auto names = static_cast<std::int64_t>(read.devices.size());
  if (names != 0 && names != read.num_devices) {
    return invalid_argument("device configuration '", read.name, "' has ", read.num_devices,
                            " devices and names ", names, " of them");
  }
  return read;
}

class AnnotationReader {
 public:
  Result<DeviceAnnotations> read(const onnx::ModelProto& model) {
    for (const onnx::DeviceConfigurationProto& proto : model.configuration()) {
      TUTTI_ASSIGN_OR_RETURN(DeviceConfiguration read, read_configuration(proto));
      if (!known_.insert(read.name).second) {
        return invalid_argument("the model has two device configurations '", read.name, "'");
      }
      annotations_.configurations.push_back(std::move(read));
    }
    for (const onnx::NodeProto& node : model.graph().node()) {
      for (const onnx::NodeDeviceConfigurationProto& proto : node.device_configurations()) {
        TUTTI_RETURN_IF_ERROR(
            add_placement(node, proto)
                .with_context(str_cat("device configuration of node '", name_of(node), "'")));
      }
      TUTTI_RETURN_IF_ERROR(refuse_in_branches(node, str_cat("node '", name_of(node), "'")));
    }
    for (const onnx::FunctionProto& function : model.functions()) {
      const std::string place = str_cat("function '", function.name(), "'");
      for (const onnx::NodeProto& node : function.node()) {
        TUTTI_RETURN_IF_ERROR(refuse(node, place));
      }
    }
    return std::move(annotations_);
  }

 private:
  Status add_placement(const onnx::NodeProto& node,
                       const onnx::NodeDeviceConfigurationProto& proto) {
    NodePlacement placement;
    placement.node = name_of(node);
    placement.configuration = proto.configuration_id();
    if (!known_.contains(placement.configuration)) {
      return invalid_argument("the model has no configuration '", placement.configuration, "'");
    }
    if (proto.has_pipeline_stage()) placement.pipeline_stage = proto.pipeline_stage();
    for (const onnx::ShardingSpecProto& spec : proto.sharding_spec()) {
      const std::string& tensor = spec.tensor_name();
      const auto is_operand = [&tensor](const auto& names) {
        return std::find(names.begin(), names.end(), tensor) != names.end();
      };
      if (tensor.empty() || (!is_operand(node.input()) && !is_operand(node.output()))) {
        return invalid_argument("shards tensor '", tensor,
                                "', which is neither an input nor an output of the node");
      }
      Result<ShardingSpec> read = read_sharding_spec(spec);
      if (!read.ok()) return read.status().with_context(str_cat("tensor '", tensor, "'"));
      placement.shardings.push_back(*std::move(read));
    }
    annotations_.placements.push_back(std::move(placement));
    return {};
  }

  // What is inlined has no name by which an annotation could find it again.
  static Status refuse(const onnx::NodeProto& node, const std::string& place) {
    if (node.device_configurations().empty()) return refuse_in_branches(node, place);
    return unimplemented("node '", name_of(node), "' inside ", place,
                         " has a device configuration; only nodes of the main graph may have one");
  }

  static Status refuse_in_branches(const onnx::NodeProto& node, const std::string& place) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      for (const onnx::NodeProto& inner : attribute.g().node()) {
        TUTTI_RETURN_IF_ERROR(refuse(inner, place));
      }
    }
    return {};
  }

  std::set<std::string> known_;
  DeviceAnnotations annotations_;
};

}  // namespace

Result<DeviceAnnotations> read_device_annotations(const onnx::ModelProto& model) {
  return AnnotationReader().read(model);
}

}  // namespace tutti
