// Which devices an instance gets: instance_group, enable_multi_device, multi_device_gpus.
#pragma once

#include <vector>

#include "server/config/config_file.h"
#include "server/config/model_facts.h"

namespace tutti::server {

inline constexpr int kMostInstances = 256;  // of one model version, over all groups

// Counts, kinds, `gpus`, and the form of the parameters: what needs no model.
Status check_instance_groups(const ConfigFile& file, const DeviceFacts& devices);

// Where one instance runs.
struct Placement {
  bool is_on_cpu = false;    // KIND_CPU, whatever the server has
  std::vector<int> devices;  // of each rank, in rank order
  int group = 0;             // index in instance_group
};

// One entry an instance. `config` is complete.
// Errors: the model's ranks and the list's length differ (both numbers are named), a model of
// several ranks in a group of another kind than KIND_MODEL.
Result<std::vector<Placement>> assign_devices(const ConfigFile& file,
                                              const inference::ModelConfig& config,
                                              const ModelFacts& model);

}  // namespace tutti::server
