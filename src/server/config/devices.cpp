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

using DeviceLists = std::vector<std::vector<int>>;

// One list for all instances, or "0,1;2,3": one for each, in turn. Empty when the model does not
// ask for several devices.
Result<DeviceLists> read_device_lists(const ConfigFile& file, const DeviceFacts* devices) {
  TUTTI_ASSIGN_OR_RETURN(const bool is_enabled, read_flag(file, kEnable));
  if (!is_enabled) return DeviceLists();
  const auto text = parameter(file.config(), kDevices);
  if (!text) {
    return file.error(field_of(kEnable), "needs ", field_of(kDevices),
                      " with at least two device ids, one a rank");
  }
  DeviceLists lists;
  for (std::string_view rest = *text;;) {
    const std::size_t end = rest.find(';');
    TUTTI_ASSIGN_OR_RETURN(std::vector<int> ids, parse_ids(file, rest.substr(0, end), devices));
    lists.push_back(std::move(ids));
    if (end == std::string_view::npos) return lists;
    rest.remove_prefix(end + 1);
  }
}

Status check_ranks(const ConfigFile& file, const DeviceLists& lists, const ModelFacts& model) {
  const std::string mesh = model.mesh.empty() ? "" : str_cat(" (mesh ", model.mesh, ")");
  if (lists.empty() && model.ranks > 1) {
    return file.error(field_of(kEnable), "is not set, but the plan was compiled for ", model.ranks,
                      " ranks", mesh, ": expected \"true\" and ", model.ranks, " ids in ",
                      field_of(kDevices));
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() == static_cast<std::size_t>(model.ranks)) continue;
    return file.error(field_of(kDevices), lists.size() > 1 ? str_cat("list ", i, " ") : "",
                      "names ", lists[i].size(), " devices, but the plan was compiled for ",
                      model.ranks, " ranks", mesh);
  }
  return Status();
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
    instances += std::int64_t{std::max(group.count(), 1)} * std::max(group.gpus_size(), 1);
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
  TUTTI_ASSIGN_OR_RETURN(const DeviceLists lists, read_device_lists(file, &devices));
  if (lists.empty()) return Status();
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
  TUTTI_ASSIGN_OR_RETURN(DeviceLists lists, read_device_lists(file, nullptr));
  TUTTI_RETURN_IF_ERROR(check_ranks(file, lists, model));
  const std::size_t listed = lists.size();
  if (lists.empty()) lists.push_back({0});
  std::vector<Placement> instances;
  for (int index = 0; index < config.instance_group_size(); ++index) {
    const ModelInstanceGroup& group = config.instance_group(index);
    for (int i = 0; i < std::max(group.count(), 1); ++i) {
      if (group.kind() == ModelInstanceGroup::KIND_GPU) {
        for (const int gpu : group.gpus()) instances.push_back({false, {gpu}, index});
      } else {
        instances.push_back({group.kind() == ModelInstanceGroup::KIND_CPU,
                             lists[instances.size() % lists.size()], index});
      }
    }
  }
  if (listed > instances.size()) {
    return file.error(field_of(kDevices), "has ", listed, " lists, but instance_group makes ",
                      instances.size(), " instances, expected one list for all or for each");
  }
  return instances;
}

}  // namespace tutti::server
