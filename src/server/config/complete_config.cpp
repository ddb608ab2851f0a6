#include <algorithm>

#include "server/config/check_config.h"
#include "server/datatype.h"

namespace tutti::server {
namespace {

using inference::ModelConfig;
using inference::ModelInstanceGroup;

// With max_batch_size > 0 the configuration leaves the batch dimension out.
template <class Tensors>
void add_tensors(const std::vector<TensorSpec>& specs, bool is_batched, Tensors* tensors) {
  for (const TensorSpec& spec : specs) {
    auto* tensor = tensors->Add();
    tensor->set_name(spec.name);
    tensor->set_data_type(config_type(spec.dtype));
    const std::size_t first = is_batched && !spec.dims.empty() ? 1 : 0;
    for (std::size_t i = first; i < spec.dims.size(); ++i) tensor->add_dims(spec.dims[i]);
  }
}

void complete_version_policy(ModelConfig* config) {
  if (config->version_policy().policy_choice_case() ==
      inference::ModelVersionPolicy::POLICY_CHOICE_NOT_SET) {
    config->mutable_version_policy()->mutable_latest()->set_num_versions(1);
  }
}

}  // namespace

ModelConfig complete_ensemble_config(const ConfigFile& file, std::string_view folder_name) {
  ModelConfig config = file.config();
  config.set_name(std::string(folder_name));
  config.set_platform("ensemble");
  complete_version_policy(&config);
  return config;
}

ModelConfig complete_config(const ConfigFile& file, std::string_view folder_name,
                            const BackendName& backend, const ModelFacts& model,
                            const DeviceFacts& devices) {
  ModelConfig config = file.config();
  config.set_name(std::string(folder_name));
  config.set_backend(backend.backend);
  config.set_platform(backend.platform);
  const bool is_batched = config.max_batch_size() > 0;
  if (config.input().empty()) {
    add_tensors(model.signature.inputs, is_batched, config.mutable_input());
  }
  if (config.output().empty()) {
    add_tensors(model.signature.outputs, is_batched, config.mutable_output());
  }
  if (config.instance_group().empty()) {
    ModelInstanceGroup* group = config.add_instance_group();
    group->set_kind(model.ranks > 1 ? ModelInstanceGroup::KIND_MODEL
                                    : ModelInstanceGroup::KIND_AUTO);
  }
  for (int i = 0; i < config.instance_group_size(); ++i) {
    ModelInstanceGroup* group = config.mutable_instance_group(i);
    if (group->name().empty()) group->set_name(str_cat(folder_name, "_", i));
    group->set_count(std::max(group->count(), 1));
    if (group->kind() == ModelInstanceGroup::KIND_AUTO) {
      group->set_kind(devices.gpus > 0 ? ModelInstanceGroup::KIND_GPU
                                       : ModelInstanceGroup::KIND_CPU);
      for (int gpu = 0; gpu < devices.gpus; ++gpu) group->add_gpus(gpu);
    }
  }
  if (config.default_model_filename().empty()) config.set_default_model_filename("model.plan");
  complete_version_policy(&config);
  return config;
}

}  // namespace tutti::server
