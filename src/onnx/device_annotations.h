// ONNX's own multi-device annotations (IR 11: ModelProto.configuration and
// NodeProto.device_configurations), kept as they are in the model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/dim.h"

namespace onnx {
class ModelProto;
}

namespace tutti {

struct DeviceConfiguration {
  std::string name;
  std::int64_t num_devices = 0;
  std::vector<std::string> devices;  // may be empty
};

// One dimension of a tensor, fused of parts (major to minor; mostly one), each of which is cut.
struct ShardedDim {
  std::int64_t axis = 0;  // negative: from the back
  struct Cut {
    std::optional<Dim> size;  // of the part; absent where it is the whole dimension
    std::int64_t num_shards = 0;
  };
  std::vector<Cut> cuts;
};

struct ShardingSpec {
  std::string tensor;
  std::vector<std::int64_t> devices;  // device numbers, or keys of `groups`
  std::map<std::int64_t, std::vector<std::int64_t>> groups;
  std::vector<ShardedDim> dims;
};

// How one node runs under one configuration.
struct NodePlacement {
  std::string node;  // its first output where it has no name, as in messages
  std::string configuration;
  std::optional<std::int64_t> pipeline_stage;
  std::vector<ShardingSpec> shardings;
};

struct DeviceAnnotations {
  std::vector<DeviceConfiguration> configurations;
  std::vector<NodePlacement> placements;  // of the main graph's nodes, in their order
};

// Errors name node and tensor: a placement that names no configuration of the model, a tensor that
// the node neither reads nor makes, fields that must be there and are not, sizes that do not parse,
// groups that are listed twice, nodes inside branches or functions (which are inlined).
Result<DeviceAnnotations> read_device_annotations(const onnx::ModelProto& model);

}  // namespace tutti
