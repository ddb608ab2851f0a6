#include "server/config/devices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "server/names.h"

namespace tutti::server {
namespace {

using inference::ModelConfig;
using inference::ModelInstanceGroup;

constexpr std::string_view kEnable = "enable_multi_device";
constexpr std::string_view kDevices = "multi_device_gpus";
constexpr std::string_view kPerRankFiles = "multi_device_per_rank_engines";

std::string field_of(std::string_view parameter) {
  return str_cat("parameters[\"", parameter, "\"]");
}

std::optional<std::string> parameter(const ModelConfig& config, std::string_view name) {
  const auto found = config.parameters().find(std::string(name));
  if (found == config.parameters().end()) return std::nullopt;
  return found->second.string_value();
}

Result<bool> read_flag(const ConfigFile& file, std::string_view name) {
  const auto text = parameter(file.config(), name);
  if (!text || *text == "false" || *text == "0") return false;
  if (*text == "true" || *text == "1") return true;
  return file.error(field_of(name), "'", printable(*text),
                    "' is no truth value, expected true, 1, false or 0");
}

// "0,1,1": decimal numbers between commas, spaces around them allowed.
Result<std::vector<int>> parse_ids(const ConfigFile& file, std::string_view text,
                                   const DeviceFacts* devices) {
  std::vector<int> ids;
  std::string_view rest = text;
  while (true) {
    std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t consumed = item.size();
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    int id = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (error != std::errc() || end != item.data() + item.size() || id < 0) {
      return file.error(field_of(kDevices), "'", printable(item), "' at position ", ids.size(),
                        " of '", printable(text), "' is no device id, expected a number >= 0");
    }
    if (devices != nullptr && devices->gpus > 0 && id >= devices->gpus) {
      return file.error(field_of(kDevices), "device ", id, " does not exist: this machine has ",
                        devices->gpus, " GPUs");
    }
    ids.push_back(id);
    if (consumed == rest.size()) break;
    rest.remove_prefix(consumed + 1);
  }
  if (ids.size() < 2) {
    return file.error(field_of(kDevices), "'", printable(text), "' names ", ids.size(),
                      " device, expected at least 2");
  }
  return ids;
}

// The ids, or nothing when the model does not ask for several devices.
Result<std::optional<std::vector<int>>> read_device_list(const ConfigFile& file,
                                                         const DeviceFacts* devices) {
  TUTTI_ASSIGN_OR_RETURN(const bool is_enabled, read_flag(file, kEnable));
  if (!is_enabled) return std::optional<std::vector<int>>();
  const auto text = parameter(file.config(), kDevices);
  if (!text) {
    return file.error(field_of(kEnable), "needs ", field_of(kDevices),
                      " with at least two device ids, one a rank");
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<int> ids, parse_ids(file, *text, devices));
  return std::optional(std::move(ids));
}

Status check_group(const ConfigFile& file, const ModelInstanceGroup& group, int index,
                   const DeviceFacts& devices) {
  const std::string field = str_cat("instance_group[", index, "]");
  if (group.count() < 0) {
    return file.error(str_cat(field, ".count"), group.count(), " instances, expected at least 1");
  }
  const auto kind = ModelInstanceGroup::Kind_Name(group.kind());
  if (group.kind() == ModelInstanceGroup::KIND_GPU) {
    if (devices.gpus == 0) {
      return file.error(str_cat(field, ".kind"),
                        "KIND_GPU needs a GPU and this server has none, expected KIND_CPU, "
                        "KIND_AUTO or KIND_MODEL");
    }
    if (group.gpus_size() == 0) {
      return file.error(str_cat(field, ".gpus"), "is empty, expected the GPU ids of KIND_GPU");
    }
  } else if (group.gpus_size() > 0) {
    return file.error(str_cat(field, ".gpus"), "is set with kind ", kind,
                      ", expected it to be empty; the devices of one instance over several are in ",
                      field_of(kDevices));
  }
  for (int i = 0; i < group.gpus_size(); ++i) {
    if (group.gpus(i) < 0 || group.gpus(i) >= devices.gpus) {
      return file.error(str_cat(field, ".gpus[", i, "]"), "GPU ", group.gpus(i),
                        " does not exist: this machine has ", devices.gpus, " GPUs");
    }
  }
  return Status();
}

}  // namespace

Status check_instance_groups(const ConfigFile& file, const DeviceFacts& devices) {
  const ModelConfig& config = file.config();
  std::int64_t instances = 0;
  for (int i = 0; i < config.instance_group_size(); ++i) {
    const ModelInstanceGroup& group = config.instance_group(i);
    TUTTI_RETURN_IF_ERROR(check_group(file, group, i, devices));
    instances += std::max(group.count(), 1) * std::max(group.gpus_size(), 1);
    if (instances > kMostInstances) {
      return file.error(str_cat("instance_group[", i, "].count"), "makes more than ",
                        kMostInstances, " instances");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const bool has_rank_files, read_flag(file, kPerRankFiles));
  if (has_rank_files) {
    return file.error(field_of(kPerRankFiles),
                      "is not supported: one plan holds the pieces of all ranks");
  }
  TUTTI_ASSIGN_OR_RETURN(const auto ids, read_device_list(file, &devices));
  if (!ids) return Status();
  for (int i = 0; i < config.instance_group_size(); ++i) {
    const auto kind = config.instance_group(i).kind();
    if (kind != ModelInstanceGroup::KIND_MODEL) {
      return file.error(str_cat("instance_group[", i, "].kind"),
                        ModelInstanceGroup::Kind_Name(kind), " with ", field_of(kEnable),
                        ", expected KIND_MODEL");
    }
  }
  return Status();
}

Result<std::vector<Placement>> assign_devices(const ConfigFile& file, const ModelConfig& config,
                                              const ModelFacts& model) {
  TUTTI_ASSIGN_OR_RETURN(const auto ids, read_device_list(file, nullptr));
  const std::size_t listed = ids ? ids->size() : 1;
  if (listed != static_cast<std::size_t>(model.ranks)) {
    const std::string mesh = model.mesh.empty() ? "" : str_cat(" (mesh ", model.mesh, ")");
    if (!ids) {
      return file.error(field_of(kEnable), "is not set, but the plan was compiled for ",
                        model.ranks, " ranks", mesh, ": expected \"true\" and ", model.ranks,
                        " ids in ", field_of(kDevices));
    }
    return file.error(field_of(kDevices), "names ", listed,
                      " devices, but the plan was compiled for ", model.ranks, " ranks", mesh);
  }
  std::vector<Placement> instances;
  for (const ModelInstanceGroup& group : config.instance_group()) {
    for (int i = 0; i < std::max(group.count(), 1); ++i) {
      if (group.kind() == ModelInstanceGroup::KIND_GPU) {
        for (const int gpu : group.gpus()) instances.push_back({false, {gpu}});
      } else {
        instances.push_back(
            {group.kind() == ModelInstanceGroup::KIND_CPU, ids ? *ids : std::vector<int>{0}});
      }
    }
  }
  return instances;
}

}  // namespace tutti::server
