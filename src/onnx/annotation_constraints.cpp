#include "onnx/annotation_constraints.h"

#include <algorithm>
#include <set>

namespace tutti {
namespace {

// The configurations that nodes follow.
std::vector<const DeviceConfiguration*> followed(const DeviceAnnotations& annotations) {
  std::set<std::string> names;
  for (const NodePlacement& placement : annotations.placements) {
    names.insert(placement.configuration);
  }
  std::vector<const DeviceConfiguration*> found;
  for (const DeviceConfiguration& configuration : annotations.configurations) {
    if (names.contains(configuration.name)) found.push_back(&configuration);
  }
  return found;
}

std::string names_of(const std::vector<const DeviceConfiguration*>& configurations) {
  std::string text;
  for (const DeviceConfiguration* one : configurations) {
    text += str_cat(text.empty() ? "'" : ", '", one->name, "' (", one->num_devices, " devices)");
  }
  return text;
}

// Of several, that called like the mesh, or the one of as many devices.
Result<const DeviceConfiguration*> followed_on(const DeviceAnnotations& annotations,
                                               const Mesh& mesh) {
  const std::vector<const DeviceConfiguration*> all = followed(annotations);
  std::vector<const DeviceConfiguration*> fitting;
  for (const DeviceConfiguration* one : all) {
    if (one->num_devices != mesh.num_ranks()) continue;
    if (one->name == mesh.to_string()) return one;
    fitting.push_back(one);
  }
  if (fitting.size() == 1) return fitting[0];
  if (all.empty()) return static_cast<const DeviceConfiguration*>(nullptr);
  if (all.size() == 1) {
    return invalid_argument("device configuration '", all[0]->name, "' has ", all[0]->num_devices,
                            " devices, mesh ", mesh, " has ", mesh.num_ranks(), " ranks");
  }
  return invalid_argument("nodes follow the device configurations ", names_of(all),
                          "; expected one of them for mesh ", mesh, " of ", mesh.num_ranks(),
                          " ranks");
}

// Stages run one after the other on devices of their own; here every rank works on every node.
Status check_stages(const DeviceAnnotations& annotations, const DeviceConfiguration& followed) {
  const NodePlacement* first = nullptr;
  for (const NodePlacement& placement : annotations.placements) {
    if (placement.configuration != followed.name || !placement.pipeline_stage) continue;
    if (first == nullptr) first = &placement;
    if (first->pipeline_stage == placement.pipeline_stage) continue;
    return unimplemented("node '", first->node, "' is in pipeline stage ", *first->pipeline_stage,
                         " and node '", placement.node, "' in stage ", *placement.pipeline_stage,
                         "; expected all in one, as every rank works on every node");
  }
  return {};
}

// More than could ever be devices are all the same.
std::int64_t shards_of(const ShardedDim& dim) {
  constexpr std::int64_t kMany = std::int64_t{1} << 31;
  std::int64_t shards = 1;
  for (const ShardedDim::Cut& cut : dim.cuts) {
    if (cut.num_shards > kMany / shards) return kMany;
    shards *= cut.num_shards;
  }
  return shards;
}

// By rank, the index of its shard along each sharded dimension.
using ShardIndexes = std::vector<std::vector<std::int64_t>>;

class SpecReader {
 public:
  SpecReader(const ShardingSpec& spec, const Mesh& mesh) : spec_(spec), mesh_(mesh) {}

  Result<std::vector<ConstraintSplit>> read() {
    for (const ShardedDim& dim : spec_.dims) TUTTI_RETURN_IF_ERROR(check_parts(dim));
    TUTTI_RETURN_IF_ERROR(deal_out());
    std::vector<ConstraintSplit> splits;
    for (std::size_t d = 0; d < spec_.dims.size(); ++d) {
      TUTTI_RETURN_IF_ERROR(follow_axes(d, &splits));
    }
    return splits;
  }

 private:
  // Of a dimension that is fused of parts, pieces are contiguous where the major one is cut.
  static Status check_parts(const ShardedDim& dim) {
    bool is_major = true;
    for (const ShardedDim::Cut& cut : dim.cuts) {
      if (cut.num_shards > 1 && !is_major) {
        return unimplemented("dimension ", dim.axis, " is fused of ", dim.cuts.size(),
                             " parts and cut inside the major one; expected that one to be cut");
      }
      is_major = is_major && cut.size && cut.size->is(1);
    }
    return {};
  }

  // The blocks that shards are made of, where they are larger than one element.
  static std::optional<Dim> units_of(const ShardedDim& dim) {
    for (const ShardedDim::Cut& cut : dim.cuts) {
      if (cut.num_shards > 1) return dim.cuts.size() > 1 ? cut.size : std::nullopt;
    }
    return std::nullopt;
  }

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
    const std::optional<Dim> units = units_of(spec_.dims[d]);
    const auto add = [&](int axis, std::int64_t count, const std::optional<Dim>& of = {}) {
      splits->push_back({dim, mesh_.axes()[static_cast<std::size_t>(axis)].name, count, of});
    };
    for (int a = 0; a < axes; ++a) {
      if (mesh_.size(a) % shards != 0) continue;
      const std::int64_t copies = mesh_.size(a) / shards;
      if (!matches([&](int rank) { return mesh_.coordinate(rank, a) / copies; })) continue;
      add(a, shards, units);
      return {};
    }
    if (units && !exact_div(*units, Dim(shards))) {
      return unimplemented("dimension ", dim, ": ", *units, " blocks in ", shards,
                           " shards over two axes; expected a number that divides");
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
  const std::vector<const DeviceConfiguration*> all = followed(annotations);
  if (all.empty()) return Mesh();
  if (all.size() > 1) {
    return invalid_argument("nodes follow the device configurations ", names_of(all),
                            "; expected a mesh (--mesh) that says which");
  }
  const DeviceConfiguration& configuration = *all[0];
  if (auto mesh = Mesh::parse(configuration.name);
      mesh.ok() && mesh->num_ranks() == configuration.num_devices) {
    return mesh;
  }
  if (configuration.num_devices > 1024) {
    return invalid_argument("device configuration '", configuration.name, "' has ",
                            configuration.num_devices, " devices, expected 1 to 1024");
  }
  return Mesh::create({{"device", static_cast<int>(configuration.num_devices)}});
}

namespace {

// What the specification takes sizes to be: products of the parts that dimensions are fused of.
std::vector<ConstraintSize> sizes_of(const ShardingSpec& spec) {
  std::vector<ConstraintSize> sizes;
  for (const ShardedDim& dim : spec.dims) {
    Dim size = 1;
    const bool is_known = std::all_of(dim.cuts.begin(), dim.cuts.end(),
                                      [](const auto& cut) { return cut.size.has_value(); });
    if (!is_known) continue;
    for (const ShardedDim::Cut& cut : dim.cuts) size = size * *cut.size;
    sizes.push_back({static_cast<int>(dim.axis), size});
  }
  return sizes;
}

Status add_constraint(const std::string& node, const ShardingSpec& spec, const Mesh& mesh,
                      std::vector<LayoutConstraint>* constraints) {
  auto splits = SpecReader(spec, mesh).read();
  if (!splits.ok()) {
    return splits.status().with_context(
        str_cat("node '", node, "': annotated tensor '", spec.tensor, "'"));
  }
  const auto same =
      std::find_if(constraints->begin(), constraints->end(), [&](const LayoutConstraint& other) {
        return other.node == node && other.value == spec.tensor;
      });
  if (same == constraints->end()) {
    constraints->push_back({node, spec.tensor, *std::move(splits), sizes_of(spec)});
  } else if (same->splits != *splits) {
    return invalid_argument("node '", node, "': annotations of tensor '", spec.tensor,
                            "' disagree: ", splits_text(same->splits), " against ",
                            splits_text(*splits));
  }
  return {};
}

}  // namespace

Result<std::vector<LayoutConstraint>> layout_constraints(const DeviceAnnotations& annotations,
                                                         const Mesh& mesh) {
  std::vector<LayoutConstraint> constraints;
  TUTTI_ASSIGN_OR_RETURN(const DeviceConfiguration* configuration, followed_on(annotations, mesh));
  if (configuration == nullptr) return constraints;
  TUTTI_RETURN_IF_ERROR(check_stages(annotations, *configuration));
  for (const NodePlacement& placement : annotations.placements) {
    if (placement.configuration != configuration->name) continue;
    for (const ShardingSpec& spec : placement.shardings) {
      TUTTI_RETURN_IF_ERROR(add_constraint(placement.node, spec, mesh, &constraints));
    }
  }
  return constraints;
}

}  // namespace tutti
