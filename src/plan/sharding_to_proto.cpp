#include "plan/sharding_to_proto.h"

#include <algorithm>
#include <set>

#include "onnx.pb.h"

namespace tutti {
namespace {

// How many different pieces there are along the split's axis, and which one a coordinate holds;
// nullopt: ONNX cannot say it.
std::optional<std::int64_t> shards_of(const Split& split, const Mesh& mesh) {
  const std::int64_t ranks = mesh.size(split.axis);
  if (!split.segments.empty()) return std::nullopt;
  if (split.replicas == 1) return ranks;
  if (!split.units.is_constant() || split.units.constant() * split.replicas != ranks) {
    return std::nullopt;
  }
  return split.units.constant();
}

// Sharded dimensions in order, each with its splits, major ones first.
std::vector<std::vector<const Split*>> by_dimension(const Layout& layout) {
  std::vector<std::vector<const Split*>> dims;
  for (const Split& split : layout.splits) {
    const auto same = std::find_if(dims.begin(), dims.end(),
                                   [&](const auto& splits) { return splits[0]->dim == split.dim; });
    if (same == dims.end()) {
      dims.push_back({&split});
    } else {
      same->push_back(&split);
    }
  }
  std::sort(dims.begin(), dims.end(),
            [](const auto& a, const auto& b) { return a[0]->dim < b[0]->dim; });
  return dims;
}

bool can_say(const Layout& layout, const Mesh& mesh) {
  return !layout.splits.empty() && layout.partial_axes.empty() &&
         std::all_of(layout.splits.begin(), layout.splits.end(),
                     [&](const Split& split) { return shards_of(split, mesh).has_value(); });
}

// What the pieces of a dimension are whole numbers of, where they would be others if they were cut
// anywhere: heads of several features each, that are not shared out evenly.
Dim blocks_of(const Split& split, const Dim& size, const Mesh& mesh) {
  const bool is_even = exact_div(split.units, Dim(mesh.size(split.axis))).has_value();
  return is_even || split.replicas != 1 ? size : split.units;
}

void add_part(const Dim& size, std::int64_t shards, onnx::ShardedDimProto* dim) {
  onnx::SimpleShardedDimProto* part = dim->add_simple_sharding();
  if (size.is_constant()) {
    part->set_dim_value(size.constant());
  } else {
    part->set_dim_param(size.to_string());
  }
  part->set_num_shards(shards);
}

void spec_to_proto(const std::string& name, const ValueLayout& value, const Mesh& mesh,
                   onnx::ShardingSpecProto* spec) {
  spec->set_tensor_name(name);
  const auto dims = by_dimension(value.layout);
  std::int64_t shards = 1;
  for (const auto& splits : dims) {
    onnx::ShardedDimProto* dim = spec->add_sharded_dim();
    dim->set_axis(splits[0]->dim);
    std::int64_t count = 1;
    for (const Split* split : splits) count *= *shards_of(*split, mesh);
    const Dim& size = value.global.shape[static_cast<std::size_t>(splits[0]->dim)];
    const Dim blocks = splits.size() == 1 ? blocks_of(*splits[0], size, mesh) : size;
    add_part(blocks, count, dim);
    if (blocks != size) add_part(floor_div(size, blocks), 1, dim);
    shards *= count;
  }
  std::vector<std::vector<std::int64_t>> holders(static_cast<std::size_t>(shards));
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::int64_t shard = 0;
    for (const auto& splits : dims) {
      for (const Split* split : splits) {
        const std::int64_t count = *shards_of(*split, mesh);
        const std::int64_t copies = mesh.size(split->axis) / count;
        shard = shard * count + mesh.coordinate(rank, split->axis) / copies;
      }
    }
    holders[static_cast<std::size_t>(shard)].push_back(rank);
  }
  for (std::size_t shard = 0; shard < holders.size(); ++shard) {
    if (holders[shard].size() == 1) {
      spec->add_device(holders[shard][0]);
      continue;
    }
    const auto group = -1 - static_cast<std::int64_t>(shard);  // no device has such a number
    spec->add_device(group);
    onnx::IntIntListEntryProto* entry = spec->add_index_to_device_group_map();
    entry->set_key(group);
    for (const std::int64_t rank : holders[shard]) entry->add_value(rank);
  }
}

}  // namespace

void mesh_to_proto(const Mesh& mesh, onnx::ModelProto* model) {
  if (mesh.num_ranks() == 1) return;
  onnx::DeviceConfigurationProto* configuration = model->add_configuration();
  configuration->set_name(mesh.to_string());
  configuration->set_num_devices(mesh.num_ranks());
}

void shardings_to_proto(const Node& node, const LayoutTable& layouts, const Mesh& mesh,
                        onnx::NodeProto* proto) {
  onnx::NodeDeviceConfigurationProto configuration;
  std::set<std::string> written;
  for (const auto* operands : {&node.inputs(), &node.outputs()}) {
    for (const Value* value : *operands) {
      if (value == nullptr || !written.insert(value->name()).second) continue;
      const auto found = layouts.find(value->name());
      if (found == layouts.end() || !can_say(found->second.layout, mesh)) continue;
      spec_to_proto(value->name(), found->second, mesh, configuration.add_sharding_spec());
    }
  }
  if (configuration.sharding_spec_size() == 0) return;
  configuration.set_configuration_id(mesh.to_string());
  *proto->add_device_configurations() = std::move(configuration);
}

}  // namespace tutti
