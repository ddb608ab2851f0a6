#include "server/config/check_config.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "server/config/check_fields.h"
#include "server/config/check_scheduling.h"
#include "server/config/devices.h"
#include "server/metrics/latencies.h"
#include "server/names.h"

namespace tutti::server {
namespace {

using inference::ModelConfig;

// An ensemble runs nothing itself: no backend, no instances, no queue.
Status check_ensemble_kind(const ConfigFile& file) {
  const ModelConfig& config = file.config();
  constexpr std::string_view kReason = "is set for an ensemble, expected it to be absent";
  if (!config.has_ensemble_scheduling()) {
    return file.error("platform", "'ensemble' needs ensemble_scheduling");
  }
  if (!config.platform().empty() && config.platform() != "ensemble") {
    return file.error("platform", "'", printable(config.platform()),
                      "' with ensemble_scheduling, expected 'ensemble'");
  }
  if (!config.backend().empty()) return file.error("backend", kReason);
  if (config.instance_group_size() > 0) return file.error("instance_group", kReason);
  if (config.has_dynamic_batching()) return file.error("dynamic_batching", kReason);
  if (config.model_warmup_size() > 0) return file.error("model_warmup", kReason);
  if (config.input().empty())
    return file.error("input", "is empty, expected the ensemble's inputs");
  if (config.output().empty()) {
    return file.error("output", "is empty, expected the ensemble's outputs");
  }
  return Status();
}

Status check_kind(const ConfigFile& file, const std::vector<BackendName>& known) {
  const ModelConfig& config = file.config();
  if (config.has_ensemble_scheduling() || config.platform() == "ensemble") {
    return check_ensemble_kind(file);
  }
  std::string available;
  for (const BackendName& name : known) {
    available += str_cat(available.empty() ? "" : ", ", "backend '", name.backend, "' (platform '",
                         name.platform, "')");
  }
  const auto matches = [&](const BackendName& name) {
    return (config.backend().empty() || config.backend() == name.backend) &&
           (config.platform().empty() || config.platform() == name.platform);
  };
  if (std::any_of(known.begin(), known.end(), matches)) return Status();
  const bool is_backend_known =
      config.backend().empty() ||
      std::any_of(known.begin(), known.end(),
                  [&](const BackendName& name) { return name.backend == config.backend(); });
  const auto& value = is_backend_known ? config.platform() : config.backend();
  return file.error(is_backend_known ? "platform" : "backend", "'", printable(value),
                    "' is not available; available: ", available,
                    ". An ONNX model becomes a plan for it with `tutti compile`");
}

Status check_version_policy(const ConfigFile& file) {
  const inference::ModelVersionPolicy& policy = file.config().version_policy();
  // An absent number is 0 too and means 1 there.
  if (policy.has_specific()) {
    if (policy.specific().versions().empty()) {
      return file.error("version_policy.specific", "names no version, expected at least one");
    }
    for (int i = 0; i < policy.specific().versions_size(); ++i) {
      if (policy.specific().versions(i) < 1) {
        return file.error(str_cat("version_policy.specific.versions[", i, "]"),
                          policy.specific().versions(i), ", expected a version >= 1");
      }
    }
  }
  return Status();
}

template <class Tensors>
Status check_tensors(const ConfigFile& file, const Tensors& tensors, std::string_view list) {
  std::set<std::string> seen;
  for (int i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    const std::string field = str_cat(list, "[", i, "]");
    if (tensor.name().empty()) return file.error(str_cat(field, ".name"), "is empty");
    if (!seen.insert(tensor.name()).second) {
      return file.error(str_cat(field, ".name"), "'", printable(tensor.name()),
                        "' is there twice, expected distinct names");
    }
    if (tensor.data_type() == inference::TYPE_INVALID) {
      return file.error(str_cat(field, ".data_type"), "is absent for '", printable(tensor.name()),
                        "', expected a type such as TYPE_FP32");
    }
    for (int d = 0; d < tensor.dims_size(); ++d) {
      if (tensor.dims(d) < -1 || tensor.dims(d) == 0) {
        return file.error(str_cat(field, ".dims[", d, "]"), tensor.dims(d), " of '",
                          printable(tensor.name()), "', expected a size >= 1, or -1 for any");
      }
    }
  }
  return Status();
}

// Tags are names of Prometheus' labels behind an underscore.
Status check_metric_tags(const ConfigFile& file) {
  for (const auto& [tag, value] : file.config().metric_tags()) {
    const bool is_name = !tag.empty() && std::all_of(tag.begin(), tag.end(), [](unsigned char c) {
      return c == '_' || (c < 128 && std::isalnum(c) != 0);
    });
    if (is_name) continue;
    return file.error("metric_tags", "'", printable(tag),
                      "' is no label, expected letters, digits and underscores");
  }
  return Status();
}

Status check_histograms(const ConfigFile& file, std::vector<std::string>* warnings) {
  const auto& controls = file.config().model_metrics().metric_control();
  for (int i = 0; i < controls.size(); ++i) {
    const std::string field = str_cat("model_metrics.metric_control[", i, "]");
    const std::string& family = controls[i].metric_identifier().family();
    if (family != kFirstResponseHistogram) {
      warnings->push_back(str_cat(file.location(field), ": ", field, ": '", family,
                                  "' has no effect, only ", kFirstResponseHistogram, " has"));
    }
    const auto& buckets = controls[i].histogram_options().buckets();
    if (std::is_sorted(buckets.begin(), buckets.end(), std::less_equal<>())) continue;
    return file.error(str_cat(field, ".histogram_options.buckets"),
                      "do not ascend, expected upper bounds in ms, each above the one before");
  }
  return Status();
}

Status check_filename(const ConfigFile& file) {
  const std::string& name = file.config().default_model_filename();
  if (name.find('/') != std::string::npos || name == "." || name == "..") {
    return file.error("default_model_filename", "'", printable(name),
                      "' is no plain file name in the version folder");
  }
  return Status();
}

}  // namespace

Status check_config_file(const ConfigFile& file, std::string_view folder_name,
                         const std::vector<BackendName>& known, const DeviceFacts& devices,
                         std::vector<std::string>* warnings) {
  const ModelConfig& config = file.config();
  if (!config.name().empty() && config.name() != folder_name) {
    return file.error("name", "'", printable(config.name()), "' differs from the model's folder '",
                      printable(folder_name), "'");
  }
  TUTTI_RETURN_IF_ERROR(check_kind(file, known));
  if (config.max_batch_size() < 0) {
    return file.error("max_batch_size", config.max_batch_size(),
                      ", expected >= 0 (0: the model does not batch)");
  }
  TUTTI_RETURN_IF_ERROR(check_version_policy(file));
  TUTTI_RETURN_IF_ERROR(check_filename(file));
  TUTTI_RETURN_IF_ERROR(check_unsupported_fields(file, warnings));
  TUTTI_RETURN_IF_ERROR(check_metric_tags(file));
  TUTTI_RETURN_IF_ERROR(check_histograms(file, warnings));
  TUTTI_RETURN_IF_ERROR(check_tensors(file, config.input(), "input"));
  TUTTI_RETURN_IF_ERROR(check_tensors(file, config.output(), "output"));
  TUTTI_RETURN_IF_ERROR(check_scheduling(file));
  return check_instance_groups(file, devices);
}

}  // namespace tutti::server
