#include "onnx/annotation_constraints.h"

#include <algorithm>
#include <set>

namespace tutti {
namespace {

// The one configuration that nodes follow; null: none does.
Result<const DeviceConfiguration*> followed(const DeviceAnnotations& annotations) {
  std::set<std::string> names;
  for (const NodePlacement& placement : annotations.placements) {
    names.insert(placement.configuration);
  }
  if (names.size() > 1) {
    return unimplemented("nodes follow the device configurations ",
                         std::vector<std::string>(names.begin(), names.end()),
                         "; expected one of them");
  }
  for (const DeviceConfiguration& configuration : annotations.configurations) {
    if (names.contains(configuration.name)) return &configuration;
  }
  return static_cast<const DeviceConfiguration*>(nullptr);
}

std::int64_t shards_of(const ShardedDim& dim) {
  std::int64_t shards = 1;
  for (const ShardedDim::Cut& cut : dim.cuts) shards *= cut.num_shards;
  return shards;
}

// By rank, the index of its shard along each sharded dimension.
using ShardIndexes = std::vector<std::vector<std::int64_t>>;

class SpecReader {
 public:
  SpecReader(const ShardingSpec& spec, const Mesh& mesh) : spec_(spec), mesh_(mesh) {}

  Result<std::vector<ConstraintSplit>> read() {
    for (const ShardedDim& dim : spec_.dims) {
      const auto is_cut = [](const ShardedDim::Cut& cut) { return cut.num_shards > 1; };
      if (std::count_if(dim.cuts.begin(), dim.cuts.end(), is_cut) > 1) {
        return unimplemented("dimension ", dim.axis, " is cut in ", dim.cuts.size(),
                             " ways at once; expected one");
      }
    }
    TUTTI_RETURN_IF_ERROR(deal_out());
    std::vector<ConstraintSplit> splits;
    for (std::size_t d = 0; d < spec_.dims.size(); ++d) {
      TUTTI_RETURN_IF_ERROR(follow_axes(d, &splits));
    }
    return splits;
  }

 private:
  // Which rank holds which shard.
  Status deal_out() {
    std::int64_t shards = 1;
    for (const ShardedDim& dim : spec_.dims) {
      shards *= shards_of(dim);
      if (shards > mesh_.num_ranks()) {
        return invalid_argument("is cut into ", shards, " shards or more, for ", mesh_.num_ranks(),
                                " devices");
      }
    }
    const auto entries = static_cast<std::int64_t>(spec_.devices.size());
    if (!spec_.dims.empty() && entries != shards) {
      return invalid_argument("is cut into ", shards, " shards and lists ", entries,
                              " devices or device groups, expected one for each shard");
    }
    shard_of_.resize(static_cast<std::size_t>(mesh_.num_ranks()));
    std::vector<bool> is_placed(shard_of_.size(), false);
    for (std::int64_t shard = 0; shard < entries; ++shard) {
      const std::int64_t device = spec_.devices[static_cast<std::size_t>(shard)];
      const auto group = spec_.groups.find(device);
      const std::vector<std::int64_t> members =
          group == spec_.groups.end() ? std::vector<std::int64_t>{device} : group->second;
      for (const std::int64_t member : members) {
        if (member < 0 || member >= mesh_.num_ranks()) {
          return invalid_argument("names device ", member, ", expected devices 0 to ",
                                  mesh_.num_ranks() - 1, " of mesh ", mesh_,
                                  " or groups that its map lists");
        }
        const auto rank = static_cast<std::size_t>(member);
        if (is_placed[rank]) return invalid_argument("names device ", member, " twice");
        is_placed[rank] = true;
        shard_of_[rank] = indexes_of(shard);
      }
    }
    const auto missing = std::find(is_placed.begin(), is_placed.end(), false);
    if (missing == is_placed.end()) return {};
    return invalid_argument("leaves out device ", missing - is_placed.begin(),
                            "; every rank of mesh ", mesh_, " takes part");
  }

  std::vector<std::int64_t> indexes_of(std::int64_t shard) const {
    std::vector<std::int64_t> indexes(spec_.dims.size());
    for (std::size_t d = spec_.dims.size(); d-- > 0;) {
      const std::int64_t shards = shards_of(spec_.dims[d]);
      indexes[d] = shard % shards;
      shard /= shards;
    }
    return indexes;
  }

  // The dimension's shard index of each rank is what its coordinates along one axis, or along two
  // (major, then minor), say.
  Status follow_axes(std::size_t d, std::vector<ConstraintSplit>* splits) const {
    const std::int64_t shards = shards_of(spec_.dims[d]);
    if (shards == 1) return {};
    const int axes = static_cast<int>(mesh_.axes().size());
    const auto dim = static_cast<int>(spec_.dims[d].axis);
    const auto matches = [&](auto&& index_of) {
      for (int rank = 0; rank < mesh_.num_ranks(); ++rank) {
        if (shard_of_[static_cast<std::size_t>(rank)][d] != index_of(rank)) return false;
      }
      return true;
    };
    const auto add = [&](int axis, std::int64_t count) {
      splits->push_back({dim, mesh_.axes()[static_cast<std::size_t>(axis)].name, count});
    };
    for (int a = 0; a < axes; ++a) {
      if (mesh_.size(a) % shards != 0) continue;
      const std::int64_t copies = mesh_.size(a) / shards;
      if (!matches([&](int rank) { return mesh_.coordinate(rank, a) / copies; })) continue;
      add(a, shards);
      return {};
    }
    for (int a = 0; a < axes; ++a) {
      for (int b = 0; b < axes; ++b) {
        const std::int64_t minor = mesh_.size(b);
        if (a == b || mesh_.size(a) * minor != shards) continue;
        if (!matches([&](int rank) {
              return mesh_.coordinate(rank, a) * minor + mesh_.coordinate(rank, b);
            })) {
          continue;
        }
        add(a, mesh_.size(a));
        add(b, minor);
        return {};
      }
    }
    return invalid_argument("dimension ", dim, ": its ", shards, " shards follow no axes of mesh ",
                            mesh_, " (devices ", spec_.devices, ")");
  }

  const ShardingSpec& spec_;
  const Mesh& mesh_;
  ShardIndexes shard_of_;
};

std::string splits_text(const std::vector<ConstraintSplit>& splits) {
  if (splits.empty()) return "whole on every device";
  std::string text;
  for (const ConstraintSplit& split : splits) {
    text += str_cat(text.empty() ? "" : ", ", "dimension ", split.dim, " over ", split.axis, " in ",
                    split.shards);
  }
  return text;
}

}  // namespace

Result<Mesh> annotated_mesh(const DeviceAnnotations& annotations) {
  TUTTI_ASSIGN_OR_RETURN(const DeviceConfiguration* configuration, followed(annotations));
  if (configuration == nullptr) return Mesh();
  if (auto mesh = Mesh::parse(configuration->name);
      mesh.ok() && mesh->num_ranks() == configuration->num_devices) {
    return mesh;
  }
  if (configuration->num_devices < 1 || configuration->num_devices > 1024) {
    return invalid_argument("device configuration '", configuration->name, "' has ",
                            configuration->num_devices, " devices, expected 1 to 1024");
  }
  return Mesh::create({{"device", static_cast<int>(configuration->num_devices)}});
}

Result<std::vector<LayoutConstraint>> layout_constraints(const DeviceAnnotations& annotations,
                                                         const Mesh& mesh) {
  TUTTI_ASSIGN_OR_RETURN(const DeviceConfiguration* configuration, followed(annotations));
  std::vector<LayoutConstraint> constraints;
  if (configuration == nullptr) return constraints;
  if (configuration->num_devices != mesh.num_ranks()) {
    return invalid_argument("device configuration '", configuration->name, "' has ",
                            configuration->num_devices, " devices, mesh ", mesh, " has ",
                            mesh.num_ranks(), " ranks");
  }
  for (const NodePlacement& placement : annotations.placements) {
    for (const ShardingSpec& spec : placement.shardings) {
      auto splits = SpecReader(spec, mesh).read();
      if (!splits.ok()) {
        return splits.status().with_context(
            str_cat("node '", placement.node, "': annotated tensor '", spec.tensor, "'"));
      }
      const auto same =
          std::find_if(constraints.begin(), constraints.end(), [&](const LayoutConstraint& other) {
            return other.node == placement.node && other.value == spec.tensor;
          });
      if (same == constraints.end()) {
        constraints.push_back({placement.node, spec.tensor, *std::move(splits)});
      } else if (same->splits != *splits) {
        return invalid_argument("node '", placement.node, "': annotations of tensor '", spec.tensor,
                                "' disagree: ", splits_text(same->splits), " against ",
                                splits_text(*splits));
      }
    }
  }
  return constraints;
}

}  // namespace tutti
