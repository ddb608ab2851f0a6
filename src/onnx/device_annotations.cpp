#include "onnx/device_annotations.h"

#include <algorithm>

#include "onnx.pb.h"

namespace tutti {
namespace {

Result<ShardedDim> read_sharded_dim(const onnx::ShardedDimProto& proto) {
  ShardedDim dim;
  dim.axis = proto.axis();
  for (const onnx::SimpleShardedDimProto& simple : proto.simple_sharding()) {
    ShardedDim::Cut cut;
    cut.num_shards = simple.num_shards();
    if (cut.num_shards < 1) {
      return invalid_argument("dimension ", dim.axis, " is cut into ", cut.num_shards, " shards");
    }
    if (simple.has_dim_value()) cut.size = Dim(simple.dim_value());
    if (simple.has_dim_param()) {
      TUTTI_ASSIGN_OR_RETURN(cut.size, parse_dim(simple.dim_param()));
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
    spec.groups[entry.key()].assign(entry.value().begin(), entry.value().end());
  }
  for (const onnx::ShardedDimProto& dim : proto.sharded_dim()) {
    Result<ShardedDim> read = read_sharded_dim(dim);
    if (!read.ok()) return read.status().with_context(str_cat("tensor '", spec.tensor, "'"));
    spec.dims.push_back(*std::move(read));
  }
  return spec;
}

}  // namespace

Result<DeviceAnnotations> read_device_annotations(const onnx::ModelProto& model) {
  DeviceAnnotations annotations;
  for (const onnx::DeviceConfigurationProto& proto : model.configuration()) {
    annotations.configurations.push_back(
        {proto.name(), proto.num_devices(), {proto.device().begin(), proto.device().end()}});
  }
  const auto& known = annotations.configurations;
  for (const onnx::NodeProto& node : model.graph().node()) {
    for (const onnx::NodeDeviceConfigurationProto& proto : node.device_configurations()) {
      NodePlacement placement;
      placement.node = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
      placement.configuration = proto.configuration_id();
      const std::string context = str_cat("device configuration of node '", node.name(), "'");
      if (std::none_of(known.begin(), known.end(), [&](const DeviceConfiguration& configuration) {
            return configuration.name == placement.configuration;
          })) {
        return invalid_argument(context, ": the model has no configuration '",
                                placement.configuration, "'");
      }
      if (proto.has_pipeline_stage()) placement.pipeline_stage = proto.pipeline_stage();
      for (const onnx::ShardingSpecProto& spec : proto.sharding_spec()) {
        Result<ShardingSpec> read = read_sharding_spec(spec);
        if (!read.ok()) return read.status().with_context(context);
        placement.shardings.push_back(*std::move(read));
      }
      annotations.placements.push_back(std::move(placement));
    }
  }
  return annotations;
}

}  // namespace tutti
